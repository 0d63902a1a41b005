src = pkgs.fetchFromGitHub {
  owner = "@sourceOwner@";
  repo = "@sourceRepo@";
  rev = "@sourceTag@";
  hash = "@sourceHash@";
  #? if submodules
  fetchSubmodules = true;
  #? end
};
