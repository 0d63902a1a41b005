# buildPythonPackage: a derivation named after its Python, which propagates `dependencies` and the interpreter.
{ lib, stdenv, python }:

lib.makeOverridable (
  { stdenv }:
  let
    build =
      fnOrAttrs:
      let
        attrsOf = final: if lib.isFunction fnOrAttrs then fnOrAttrs final else fnOrAttrs;
        chosen = (attrsOf { }).stdenv or stdenv;
        package = chosen.mkDerivation (
          final:
          let
            attrs = attrsOf final;
            dependencies = final.passthru.dependencies or (throw "${final.name}: passthru.dependencies missing after overrideAttrs overriding.");
          in
          removeAttrs attrs [ "build-system" "dependencies" "disabled" "format" "pyproject" "stdenv" ]
          // {
            name = "python${python.pythonVersion}-" + (attrs.name or "${final.pname}-${final.version}");
            outputs = (attrs.outputs or [ "out" ]) ++ [ "dist" ];
            nativeBuildInputs = [ python ] ++ (attrs.nativeBuildInputs or [ ]) ++ (attrs.build-system or [ ]);
            propagatedBuildInputs = (attrs.propagatedBuildInputs or [ ]) ++ dependencies ++ [ python ];
            sitePackages = python.sitePackages;
            # A module that cannot run here (another CPU) is not imported, as in a cross build.
            installCheckPhase = attrs.installCheckPhase or ''
              runHook preInstallCheck
              cd "$NIX_BUILD_TOP"
              if [ -n "''${pythonImportsCheck:-}" ] && [ "$machine" = "$(uname -m)" ]; then
                for name in $pythonImportsCheck; do
                  PYTHONPATH=$(pythonPath $out $propagatedBuildInputs) PYTHONDONTWRITEBYTECODE=1 python3 -c "import $name"
                done
                echo "pythonImportsCheck: $pythonImportsCheck"
              fi
              runHook postInstallCheck
            '';
            passthru = {
              dependencies = attrs.dependencies or [ ];
              build-system = attrs.build-system or [ ];
              pythonModule = python;
            } // (attrs.passthru or { });
            meta = { isBuildPythonPackage = lib.platforms.linux; } // (attrs.meta or { });
          }
        );
      in
      package
      // {
        overridePythonAttrs =
          change:
          build (
            final:
            let
              old = attrsOf final;
            in
            old // (if lib.isFunction change then change old else change)
          );
      };
  in
  build
) { inherit stdenv; }
