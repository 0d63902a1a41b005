// CPUs out of text: /proc/cpuinfo and lscpu, and what a Mac says of itself.
const cpuReports = (R, { fact, text, facts, note }) => {
  const { strip, split, lines, once, search, match, every, parts } = pythonText;
  const systemOf = (features) => (R.systems.find(([, marks]) => marks.every((mark) => features.has(mark))) || [""])[0];
  const machineSystem = (word) => R.machines[word.toLowerCase()] || `${word.toLowerCase()}-linux`;
  const dropCutLine = (report, source, notes) => {
    if (!report || report.endsWith("\n")) return report;
    const at = report.lastIndexOf("\n");
    const [head, tail] = [report.slice(0, Math.max(at, 0)), report.slice(at + 1)];
    if (!match(R.cpu["features line"], tail)) return report;
    if (search(R.cpu["any features line"], head)) {
      notes.push(note(source, "the last line is cut and was not used"));
      return `${head}\n`;
    }
    notes.push(note(source, "the list of features is cut: what stands after the cut counts as absent"));
    return `${report.slice(0, Math.max(report.lastIndexOf(" "), 0))}\n`;
  };
  const pairs = (block) => {
    const found = new Map();
    for (const line of lines(block)) {
      const at = line.indexOf(":");
      if (at >= 0) found.set(strip(line.slice(0, at)).toLowerCase(), strip(line.slice(at + 1)));
    }
    return found;
  };
  const coreId = (fields) => {
    if (R.cpuinfo_part.every((key) => fields.has(key)))
      return R.cpuinfo_part.map((key) => fields.get(key).toLowerCase()).join("/");
    if (R.cpuinfo_id.slice(0, 3).every((key) => fields.has(key)))
      return R.cpuinfo_id.filter((key) => fields.has(key)).map((key) => fields.get(key)).join("/");
    return null;
  };
  const readCpuinfo = (report, source) => {
    const notes = [];
    const cores = parts(R.cpu.cores, dropCutLine(report, source, notes)).map(pairs);
    const described = cores
      .map((fields) => ({ fields, words: fields.get("flags") ?? fields.get("features") }))
      .filter((core) => core.words !== undefined);
    if (!described.length) {
      const arm = search(R.cpu["arm core"], report) && !search(R.cpu["old arm core"], report);
      notes.push(note(source, "names no CPU features (no flags or Features line)"));
      return facts({ system: text(arm ? R.arm_core : "", source), notes });
    }
    const sets = once(described.map((core) => once(split(core.words.toLowerCase())).sort().join(" ")));
    let features = new Set(split(sets[0]));
    for (const other of sets.slice(1)) features = new Set([...features].filter((word) => split(other).includes(word)));
    if (sets.length > 1) notes.push(note(source, "cores differ in their features: those that every core has are used"));
    const name = described[0].fields.get("model name") || "";
    const ids = once(described.map((core) => coreId(core.fields)).filter(Boolean));
    return facts({
      system: text(systemOf(features), source),
      cpu_name: text(R.no_cpu_names.some((start) => name.startsWith(start)) ? "" : name, source),
      cpu_id: text(ids[0] || "", source),
      features: fact(features, source),
      notes,
    });
  };
  const plainRows = (report) => {
    const rows = [];
    for (const line of lines(report)) {
      const plain = line.replace("：", ":");
      const at = plain.indexOf(":");
      if (at >= 0) rows.push([strip(plain.slice(0, at)), strip(plain.slice(at + 1))]);
      else if (rows.length && line.startsWith("    ") && strip(line)) rows.at(-1)[1] += ` ${strip(line)}`;
    }
    return rows;
  };
  const jsonRows = (report) => {
    let table;
    try {
      table = JSON.parse(report);
    } catch {
      return every(R.cpu["json row"], report).map((found) => [found[1], found[2]]);
    }
    const rows = [];
    let waiting = table && Array.isArray(table.lscpu) ? [...table.lscpu] : [];
    while (waiting.length) {
      const row = waiting.shift();
      if (row && typeof row === "object" && !Array.isArray(row)) {
        rows.push([String(row.field ?? "").replace(/:+$/, ""), row.data ? String(row.data) : ""]);
        waiting = [...(Array.isArray(row.children) ? row.children : []), ...waiting];
      }
    }
    return rows;
  };
  const readLscpu = (report, source) => {
    const rows = report.trimStart().startsWith("{") ? jsonRows(report) : plainRows(report);
    let [features, system, name, perhaps] = ["", "", "", ""];
    const ids = new Map();
    for (const [label, value] of rows) {
      const words = new Set(split(value.toLowerCase()));
      const low = label.toLowerCase();
      if (R.marks.some((marks) => marks.filter((mark) => words.has(mark)).length >= 3)) features = value;
      else if (Object.hasOwn(R.machines, value.toLowerCase()) && !system) system = machineSystem(value);
      else if (R.lscpu_id.includes(low)) ids.has(low) || ids.set(low, value);
      else if (low === "model name") name = value;
      else if (search(R.makers, value) && !label.startsWith("BIOS")) perhaps = perhaps || value;
    }
    const notes = features
      ? []
      : [note(source, "holds no list of CPU features (the line that English lscpu calls Flags)")];
    const found = new Set(split(features.toLowerCase()));
    const numbered = R.lscpu_id.slice(0, 3).every((key) => ids.has(key)) && /^\d+$/.test(ids.get("cpu family"));
    const id = numbered ? R.lscpu_id.filter((key) => ids.has(key)).map((key) => ids.get(key)).join("/") : "";
    return facts({
      system: text(system || systemOf(found), source),
      cpu_name: text(name || perhaps, source),
      cpu_id: text(id, source),
      features: found.size ? fact(found, source) : null,
      notes,
    });
  };

  const value = (name, report) => strip((search(R.apple[name], report) || [])[1] || "");
  const [systems, sign, maker] = R.macs;
  const mac = (arm, name, memory, os, source) =>
    facts({
      system: fact(systems[arm ? "arm" : "intel"], source),
      cpu_name: text(name, source),
      os: text(os, source),
      memory_mib: memory === null ? null : fact(memory, source),
      gpus: fact([], source),
    });
  const readProfiler = (report, source) => {
    const chip = value("chip", report);
    const memory = /^(\d+) GB/.exec(value("memory", report));
    const name = chip || value("processor", report);
    return mac(chip.startsWith(maker), name, memory && Number(memory[1]) * 1024, value("release", report), source);
  };
  const readSysctl = (report, source) => {
    const name = value("brand", report);
    const memory = /^\d+/.exec(value("bytes", report));
    const arm = report.includes(sign) || name.startsWith(maker);
    return mac(arm, name, memory && Math.floor(Number(memory[0]) / 2 ** 20), "", source);
  };
  return { readCpuinfo, readLscpu, readProfiler, readSysctl };
};
