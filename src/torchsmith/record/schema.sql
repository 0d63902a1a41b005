create table runs (
  id integer primary key, started real not null, ended real, state text not null, backend text not null,
  selection text not null, nixpkgs text not null, process integer not null
);
create table jobs (
  run integer not null references runs(id), key text not null, name text not null, package text not null,
  gpu integer not null, system text not null, targets text not null, state text not null,
  attempts integer not null default 0, started real, ended real, cores integer not null default 0,
  builder text not null default '', outputs text not null default '[]', error text not null default '',
  log text not null default '', primary key (run, key)
);
create index jobs_by_name on jobs(name, state);
create table built (
  name text not null, derivation text not null, source text not null, revision text not null,
  outputs text not null, at real not null, primary key (name, derivation, source)
);
create table rehearsed (
  name text not null, derivation text not null, package text not null, gpu integer not null,
  system text not null, cores integer not null, seconds real not null, at real not null,
  primary key (name, derivation)
);
create table verdicts (
  output text not null, derivation text not null, name text not null, ok integer not null,
  unrecorded integer not null, detail text, at real, primary key (output, derivation, name)
);
create table proved (source text primary key, hash text not null, at real not null);
create table published (
  name text not null, org text not null, revision text not null, at real not null,
  primary key (name, org, revision)
);
