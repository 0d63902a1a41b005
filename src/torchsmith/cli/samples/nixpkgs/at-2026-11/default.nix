args: import ../. (args // { release = "2026-11"; })
