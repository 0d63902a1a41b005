"use strict";
// "Which one is mine?": walks the tables that page/rules.py exports. It knows no GPU, CPU, driver or threshold.
const whichIsMine = (rules) => {
  const SPACE = "\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000";
  const strip = (text) => text.replace(new RegExp(`^[${SPACE}]+|[${SPACE}]+$`, "g"), "");
  const split = (text) => text.split(new RegExp(`[${SPACE}]+`)).filter(Boolean);
  const lines = (text) => {
    const all = text.split(/\r\n|[\n\v\f\r\x1c-\x1e\x85\u2028\u2029]/);
    if (all.at(-1) === "") all.pop();
    return all;
  };
  const once = (values) => [...new Set(values)];
  const quote = (text) => (text.includes("'") && !text.includes('"') ? `"${text}"` : `'${text.replaceAll("'", "\\'")}'`);
  const kept = new Map();
  const pattern = (source, flags) => {
    const key = flags + source;
    if (!kept.has(key)) kept.set(key, new RegExp(source, flags));
    return kept.get(key);
  };
  const search = (source, text) => pattern(source, "u").exec(text);
  const match = (source, text) => pattern(`(?<![^])(?:${source})`, "u").exec(text);
  const full = (source, text) => pattern(`(?<![^])(?:${source})(?![^])`, "u").exec(text);
  const every = (source, text) => [...text.matchAll(pattern(source, "gu"))];
  const parts = (source, text) => text.split(pattern(source, "u"));
  const compare = (one, other) => {
    if (Array.isArray(one)) {
      for (let at = 0; at < one.length && at < other.length; at++) {
        const way = compare(one[at], other[at]);
        if (way) return way;
      }
      return one.length - other.length;
    }
    return one < other ? -1 : one > other ? 1 : 0;
  };
  const sorted = (values, key) =>
    values.map((value) => [key(value), value]).sort((a, b) => compare(a[0], b[0])).map((pair) => pair[1]);

  class Unread extends Error {}
  const R = rules.reports;
  const fact = (value, source) => ({ value, source });
  const text = (value, source) => (value ? fact(value, source) : null);
  const FIELDS = "system cpu_name cpu_id microarchitecture features driver gpus os glibc memory_mib".split(" ");
  const nothing = () => ({ ...Object.fromEntries(FIELDS.map((field) => [field, null])), notes: [] });
  const facts = (more) => ({ ...nothing(), ...more });
  const note = (source, words) => ({ source, words });
  const sameNote = (one) => (other) => one.source === other.source && one.words === other.words;
  const noting = (known, source, words) =>
    known.notes.some(sameNote(note(source, words))) ? known : { ...known, notes: [...known.notes, note(source, words)] };

  // ---- values ----
  const driverOf = (words, source, notes) => {
    if (!words) return null;
    if (/^\d{1,4}(\.\d{1,4}){0,3}$/.test(words)) return fact(words.split(".").map(Number), source);
    notes.push(note(source, `${quote(words)} is no driver version`));
    return null;
  };
  const driverText = (version) => {
    const width = version.length > 2 && version[1] > 9 ? 2 : 1;
    return version.map((part, place) => String(part).padStart(place === 2 ? width : 1, "0")).join(".");
  };
  const smOf = (words) => {
    const dotted = /^(\d{1,2})\.(\d)$/.exec(words);
    if (dotted) return Number(dotted[1]) * 10 + Number(dotted[2]);
    const plain = /^(?:sm_?|compute_)?(\d{2,3})$/.exec(words);
    return plain ? Number(plain[1]) : null;
  };

  // ---- reports: CPUs ----
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
      return facts({ system: text(arm ? "aarch64-linux" : "", source), notes });
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

  // ---- reports: GPUs ----
  const N = R.nvidia;
  const absent = (value) => pattern(R.absent, "iu").test(value);
  const gpuFacts = (more) => ({ name: null, sm: null, memory_mib: null, generation: null, mig: null, address: "", ...more });
  const address = (words) => ((search(N.address, words) || [])[1] || "").toLowerCase();
  const after = (label, report) => {
    const line = lines(report).map((one) => one.match(new RegExp(`^\\s*"?${label}"?\\s*:[ \\t]*(.*)$`))).find(Boolean);
    return line ? strip(line[1]) : "";
  };
  const afterColumn = (label, report) => {
    const found = search(`(?<![^\\n])[${SPACE}]*${label}[${SPACE}]+:[ \\t]*([^\\n]*)(?![^\\n])`, report);
    const value = found ? strip(found[1]) : "";
    return absent(value) ? "" : value;
  };
  const ENTITIES = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'" };
  const tagged = (name, report) => {
    const found = new RegExp(`<${name}>([^<]*)</${name}>`).exec(report);
    const plain = (found ? found[1] : "").replace(/&(amp|lt|gt|quot|apos);/g, (_, word) => ENTITIES[word]);
    return absent(strip(plain)) ? "" : strip(plain);
  };
  const largest = (found) => (found.length ? Math.max(...found.map((one) => Number(one[1]))) : null);
  const cut = (told, count) => `announces ${told} GPUs and describes ${count}: the rest is cut`;
  const readQuery = (report, source) => {
    const [head, ...sections] = parts(N["query gpu"], report);
    const notes = [];
    const gpus = sections.map((section) => {
      const place = strip(section.split("\n", 1)[0]);
      const memory = largest(every(N["query memory"], section));
      const mig = search(N["query mig"], section);
      const [name, generation] = [afterColumn("Product Name", section), afterColumn("Product Architecture", section)];
      if (!name) notes.push(note(source, `gives no name for the GPU at ${place || "an unknown address"}`));
      return gpuFacts({
        name: text(name, source),
        generation: text(generation, source),
        memory_mib: memory === null ? null : fact(memory, source),
        mig: mig && !absent(mig[1]) ? fact(mig[1] === "Enabled", source) : null,
        address: address(place),
      });
    });
    const attached = search(N.attached, head);
    if (attached && Number(attached[1]) !== gpus.length) notes.push(note(source, cut(attached[1], gpus.length)));
    const driver = driverOf(afterColumn("Driver Version", head), source, notes);
    return facts({ driver, gpus: gpus.length || (attached && attached[1] === "0") ? fact(gpus, source) : null, notes });
  };
  const readXml = (report, source) => {
    const [head, ...sections] = parts(N["xml gpu"], report);
    const notes = [];
    const gpus = sections.map((section) => {
      const [name, generation] = [tagged("product_name", section), tagged("product_architecture", section)];
      const memory = largest(every(N["xml memory"], section));
      const mig = tagged("current_mig", section);
      if (!name) notes.push(note(source, "gives no name for a GPU"));
      return gpuFacts({
        name: text(name, source),
        generation: text(generation, source),
        memory_mib: memory === null ? null : fact(memory, source),
        mig: mig ? fact(mig === "Enabled", source) : null,
        address: address(section.split(">", 1)[0]),
      });
    });
    const attached = tagged("attached_gpus", head);
    if (/^\d+$/.test(attached) && Number(attached) !== gpus.length) notes.push(note(source, cut(attached, gpus.length)));
    const driver = driverOf(tagged("driver_version", head), source, notes);
    return facts({ driver, gpus: gpus.length || attached === "0" ? fact(gpus, source) : null, notes });
  };
  const csvRows = (report) => {
    const rows = [];
    let [row, cell, quoted, began] = [[], "", false, false];
    for (const line of lines(report)) {
      for (let at = 0; at < line.length; at++) {
        const sign = line[at];
        if (quoted && sign === '"' && line[at + 1] === '"') cell += line[at++];
        else if (quoted && sign === '"') quoted = false;
        else if (quoted) cell += sign;
        else if (sign === '"' && cell === "" && !began) quoted = began = true;
        else if (sign === ",") {
          row.push(cell);
          [cell, began] = ["", false];
        } else cell += sign;
      }
      if (quoted) continue;
      if (line !== "" || row.length) rows.push([...row, cell]);
      [row, cell, began] = [[], "", false];
    }
    if (quoted) rows.push([...row, cell]);
    return rows.filter((one) => one.some(Boolean)).map((one) => one.map(strip));
  };
  const readCsv = (report, source) => {
    let rows = csvRows(report);
    const notes = [];
    const names = rows.length ? rows[0].map((cell) => cell.replace(pattern(N.unit, "u"), "")) : [];
    const header = names.some((name) => R.columns.includes(name)) ? names : [];
    if (header.length) rows = rows.slice(1);
    const [gpus, drivers] = [[], []];
    for (const row of rows) {
      if (header.length && row.length !== header.length) {
        notes.push(note(source, `a row is cut and was not used: ${[...row.join(", ")].slice(0, 60).join("")}`));
        continue;
      }
      const cells = new Map(header.length ? header.map((label, at) => [label, row[at]]) : row.flatMap(byForm));
      const [gpu, driver] = csvGpu(cells, source, notes);
      if (driver) drivers.push(driver);
      if (gpu.name || gpu.sm || gpu.memory_mib || gpu.mig || gpu.address) gpus.push(gpu);
    }
    if (!gpus.length && !drivers.length)
      return facts({ notes: [...notes, note(source, "holds no GPU that could be read")] });
    return facts({
      driver: drivers.length ? sorted(drivers, (one) => one.value)[0] : null,
      gpus: gpus.length ? fact(gpus, source) : null,
      notes,
    });
  };
  const byForm = (cell) => {
    const form = R.by_form.find(([, source]) => full(source, cell));
    if (form) return [[form[0], cell]];
    return /[A-Za-z]/.test(cell) && !R.no_names.some((start) => cell.startsWith(start)) ? [["name", cell]] : [];
  };
  const csvGpu = (cells, source, notes) => {
    const said = new Map();
    for (const [label, value] of cells)
      if (absent(value)) notes.push(note(source, `gives no ${label}`));
      else said.set(label, value);
    const name = said.get("name") || said.get("gpu_name");
    const capability = said.get("compute_cap") || "";
    const memory = /^(\d+)/.exec(said.get("memory.total") || "");
    const mig = said.get("mig.mode.current");
    const sm = smOf(capability);
    if (capability && sm === null) notes.push(note(source, `${quote(capability)} is no compute capability`));
    const gpu = gpuFacts({
      name: text(name, source),
      sm: sm === null ? null : fact(sm, source),
      memory_mib: memory ? fact(Number(memory[1]), source) : null,
      mig: mig ? fact(mig === "Enabled", source) : null,
      address: address(said.get("pci.bus_id") || said.get("gpu_bus_id") || ""),
    });
    return [gpu, driverOf(said.get("driver_version") || "", source, notes)];
  };
  const readList = (report, source) => {
    const gpus = [];
    for (const line of lines(report)) {
      const found = match(N["list gpu"], line);
      if (found) gpus.push(gpuFacts({ name: fact(found[1], source) }));
      else if (gpus.length && match(N["list mig"], line)) gpus.at(-1).mig = fact(true, source);
    }
    return facts({ gpus: fact(gpus, source) });
  };
  const readTable = (report, source) => {
    const notes = [];
    const driver = search(N["table driver"], report);
    const gpus = every(N["table gpu"], report).map((row) => {
      const name = strip(row[1]);
      if (name.endsWith("...")) notes.push(note(source, `cuts the name ${quote(name)}: nvidia-smi -q has it whole`));
      return gpuFacts({ name: fact(name, source), address: address(row[2]) });
    });
    if (driver && !gpus.length) notes.push(note(source, R.cut_table));
    const version = driver ? driverOf(driver[1], source, notes) : null;
    return facts({ driver: version, gpus: gpus.length ? fact(gpus, source) : null, notes });
  };
  const readNvidiaSmi = (report, source) => {
    const failure = R.failures.find(([words]) => report.includes(words));
    if (failure) return facts({ notes: [note(source, failure[1])] });
    if (search(R.absent_tool, report)) {
      const words = "is not installed there: taken as a machine without an NVIDIA GPU";
      return facts({ gpus: fact([], source), notes: [note(source, words)] });
    }
    if (report.includes("No devices were found")) return facts({ gpus: fact([], source) });
    if (report.includes("<nvidia_smi_log")) return readXml(report, source);
    if (report.includes("NVSMI LOG") || search(N.query, report)) return readQuery(report, source);
    if (search(N.list, report)) return readList(report, source);
    return report.includes("NVIDIA-SMI") ? readTable(report, source) : readCsv(report, source);
  };
  const readDriverFile = (report, source) => {
    const found = search(N["driver file"], `${report}\n`);
    if (!found) return facts({ notes: [note(source, "names no driver version")] });
    const notes = [];
    return facts({ driver: driverOf(found[1], source, notes), notes });
  };

  const readLspci = (report, source) => {
    const [gpus, notes] = [[], []];
    for (const [, slot, words] of every(R.pci["lspci gpu"], report)) {
      if (words.startsWith("NVIDIA")) {
        const name = search(R.pci["lspci name"], words);
        gpus.push(gpuFacts({ name: name ? fact(name[1], source) : null, address: slot.slice(-7) }));
      } else {
        const maker = match(R.pci["lspci maker"], words);
        const one = note(source, `lists a GPU of ${maker ? maker[1] : words}: ${R.other_gpus}`);
        if (!notes.some(sameNote(one))) notes.push(one);
      }
    }
    return facts({ gpus: fact(gpus, source), notes });
  };
  const readAmdTool = (report, source) =>
    facts({ gpus: fact([], source), notes: [note(source, `lists AMD's GPUs: ${R.other_gpus}`)] });

  // ---- reports: Macs, and our own document ----
  const mac = (system, name, memory, os, source) =>
    facts({
      system: fact(system, source),
      cpu_name: text(name, source),
      os: text(os, source),
      memory_mib: memory ? fact(memory, source) : null,
      gpus: fact([], source),
    });
  const readProfiler = (report, source) => {
    const chip = after("Chip", report);
    const memory = /^(\d+) GB/.exec(after("Memory", report));
    const system = chip.startsWith("Apple") ? "aarch64-darwin" : "x86_64-darwin";
    const name = chip || after("Processor Name", report);
    return mac(system, name, memory && Number(memory[1]) * 1024, after("System Version", report), source);
  };
  const readSysctl = (report, source) => {
    const name = after("machdep\\.cpu\\.brand_string", report);
    const memory = /^\d+/.exec(after("hw\\.memsize", report));
    const arm = report.includes(R.apple_arm) || name.startsWith("Apple");
    return mac(arm ? "aarch64-darwin" : "x86_64-darwin", name, memory && Math.floor(Number(memory[0]) / 2 ** 20), "", source);
  };
  const readDocument = (report, source) => {
    let data;
    try {
      data = JSON.parse(report);
    } catch {
      throw new Unread(`${source} is not whole JSON`);
    }
    if (!data || typeof data !== "object" || !(R.mark[0] in data)) throw new Unread(`${source} is not a machine as torchsmith host --json prints it`);
    if (data[R.mark[0]] !== R.mark[1]) throw new Unread(`${source} has format ${data[R.mark[0]]}, this page reads ${R.mark[1]}`);
    const known = nothing();
    const take = (value) => (value && typeof value === "object" && "value" in value ? { value: value.value, source: String(value.source) } : null);
    for (const field of FIELDS) known[field] = take(data[field]);
    if (known.features) known.features.value = new Set(known.features.value);
    if (known.driver) known.driver = driverOf(known.driver.value, known.driver.source, []);
    if (known.gpus)
      known.gpus.value = [...known.gpus.value].map((gpu) => {
        const one = gpuFacts({ address: gpu.address || "" });
        for (const field of ["name", "sm", "memory_mib", "generation", "mig"]) one[field] = take(gpu[field]);
        if (one.sm) one.sm.value = smOf(one.sm.value);
        return one;
      });
    known.notes = (data.notes || []).map((one) => note(String(one.source), String(one.text)));
    return known;
  };

  // ---- one machine out of several reports ----
  const READERS = {
    "torchsmith host": readDocument,
    "/proc/driver/nvidia/version": readDriverFile,
    "nvidia-smi": readNvidiaSmi,
    lspci: readLspci,
    "rocm-smi": readAmdTool,
    sysctl: readSysctl,
    system_profiler: readProfiler,
    "/proc/cpuinfo": readCpuinfo,
    lscpu: readLscpu,
  };
  const readReport = (pasted, name) => {
    const plain = pasted.replaceAll("\r\n", "\n").replace(/^\ufeff/, "");
    const report = plain.replace(new RegExp(R.colours, "g"), "");
    const [slurm, ansible, nodes] = R.clusters;
    if (search(slurm, report) || search(ansible, report) || (report.trimStart().startsWith("{") && search(nodes, report)))
      throw new Unread(`${name} describes machines of a cluster: torchsmith pick --from FILE, or torchsmith cover FILE, reads it`);
    let forms = R.forms.filter(([, source]) => search(source, report)).map(([tool]) => tool);
    if (forms[0] === "torchsmith host") return readDocument(report, name);
    if (forms.includes("lscpu") && forms.includes("/proc/cpuinfo")) forms = forms.filter((tool) => tool !== "lscpu");
    if (!forms.length) throw new Unread(`cannot tell which tool wrote ${name} (known reports: ${R.known})`);
    const known = merge(forms.map((tool) => READERS[tool](report, `${name} (${tool})`)));
    const silent = FIELDS.every((field) => known[field] === null) && !known.notes.length;
    return silent ? noting(known, name, "says nothing that could be used: it is cut") : known;
  };
  const same = (one, other) => one.size === other.size && [...one].every((word) => other.has(word));
  const join = (known, more) => {
    const whole = { ...known, notes: [...known.notes] };
    for (const one of more.notes) if (!known.notes.some(sameNote(one))) whole.notes.push(one);
    for (const field of ["system", "cpu_name", "cpu_id", "microarchitecture", "os", "glibc", "memory_mib"]) {
      const [old, fresh] = [known[field], more[field]];
      if (old === null) whole[field] = fresh;
      else if (fresh !== null && (field === "system" || field === "cpu_id") && fresh.value !== old.value)
        whole.notes.push(note(fresh.source, `says ${fresh.value}, but ${old.source} says ${old.value}, which is used`));
    }
    whole.driver = olderDriver(known.driver, more.driver, whole.notes);
    whole.features = commonFeatures(known.features, more.features, whole.notes);
    whole.gpus = joinGpus(known.gpus, more.gpus, whole.notes);
    return whole;
  };
  const merge = (all) => all.reduce(join, nothing());
  const olderDriver = (old, fresh, notes) => {
    if (!old || !fresh) return old || fresh;
    const shorter = Math.min(old.value.length, fresh.value.length);
    if (!compare(old.value.slice(0, shorter), fresh.value.slice(0, shorter))) return old;
    const [used, left] = compare(old.value, fresh.value) < 0 ? [old, fresh] : [fresh, old];
    const words = `says driver ${driverText(left.value)}, but ${used.source} says ${driverText(used.value)}: the older one is used`;
    notes.push(note(left.source, words));
    return used;
  };
  const commonFeatures = (old, fresh, notes) => {
    if (!old || !fresh || same(old.value, fresh.value)) return old || fresh;
    const [one, other] = [old.value, fresh.value];
    const differing = [...one].filter((word) => !other.has(word)).concat([...other].filter((word) => !one.has(word))).sort();
    const shown = differing.slice(0, 6).join(", ") + (differing.length > 6 ? " ..." : "");
    notes.push(note(fresh.source, `differs from ${old.source} in CPU features (${shown}): those that both name are used`));
    return fact(new Set([...one].filter((word) => other.has(word))), `${old.source}, ${fresh.source}`);
  };
  const joinGpus = (old, fresh, notes) => {
    if (!old || !fresh) return old || fresh;
    if (!old.value.length && fresh.value.length) {
      notes.push(note(old.source, `shows no GPU, but ${fresh.source} shows ${fresh.value.length}`));
      return fresh;
    }
    if (old.value.length !== fresh.value.length) {
      const words = `shows ${fresh.value.length} GPUs, but ${old.source} shows ${old.value.length}, which are used`;
      notes.push(note(fresh.source, words));
      return old;
    }
    const places = new Map(fresh.value.filter((gpu) => gpu.address).map((gpu) => [gpu.address, gpu]));
    const known = places.size === fresh.value.length && old.value.every((gpu) => places.has(gpu.address));
    const others = known ? old.value.map((gpu) => places.get(gpu.address)) : fresh.value;
    return fact(old.value.map((gpu, at) => fill(gpu, others[at], notes)), old.source);
  };
  const label = (gpu) => (gpu.name ? gpu.name.value : gpu.sm ? `sm${gpu.sm.value}` : "a GPU without a name");
  const fill = (gpu, other, notes) => {
    if (gpu.sm && other.sm && gpu.sm.value !== other.sm.value) {
      const used = `${gpu.sm.source} says sm${gpu.sm.value}, which is used`;
      notes.push(note(other.sm.source, `says sm${other.sm.value} for ${label(gpu)}, but ${used}`));
    }
    const both = { ...gpu };
    for (const field of ["name", "sm", "memory_mib", "generation", "mig", "address"]) both[field] = gpu[field] || other[field];
    return both;
  };

  // ---- what the catalog makes of it ----
  const isaMissing = (isa, features) => rules.isas[isa].needs.filter((word) => !features.has(word));
  const cpuMatches = (id, wanted) =>
    id.length >= wanted.length &&
    wanted.every((pattern, at) => {
      const bounds = /^(\d+)-(\d+)$/.exec(pattern);
      if (!bounds) return id[at] === pattern;
      return /^\d+$/.test(id[at]) && Number(bounds[1]) <= Number(id[at]) && Number(id[at]) <= Number(bounds[2]);
    });
  const resolveCpu = (known) => {
    const found = known.cpu_id && rules.cpus.find((cpu) => cpu[4].some((id) => cpuMatches(known.cpu_id.value.split("/"), id)));
    if (found) return { ...known, microarchitecture: fact(found[0], `${known.cpu_id.source}, ${known.cpu_id.value}`) };
    const said = known.microarchitecture;
    if (!said || rules.cpus.some((cpu) => cpu[0] === said.value)) return known;
    const named = rules.cpus.find((cpu) => cpu[5] === said.value);
    return named ? { ...known, microarchitecture: fact(named[0], said.source) } : known;
  };
  const cpuOf = (known) => known.microarchitecture && rules.cpus.find((cpu) => cpu[0] === known.microarchitecture.value);
  const featuresOfCpu = (known) => {
    const cpu = cpuOf(known);
    if (!cpu) return known;
    const source = `${rules.catalog}, by ${cpu[0]}`;
    const system = known.system || (cpu[6] ? null : fact(cpu[2], source));
    if (known.features || known.cpu_id) return { ...known, system };
    const features = new Set(cpu[3].flatMap((isa) => rules.isas[isa].needs));
    return { ...known, system, features: fact(features, source) };
  };
  const checkFeatures = (known) => {
    if (!known.features || !known.system) return known;
    const has = (marks) => marks.some((mark) => known.features.value.has(mark));
    const words = rules.kinds[known.system.value];
    const others = Object.keys(rules.kinds).filter((system) => has(rules.kinds[system]));
    if (!words || has(words) || !others.length) return known;
    const told = `lists features of ${others[0]}, but ${known.system.source} says ${known.system.value}: the features are not used`;
    return noting({ ...known, features: null }, known.features.source, told);
  };
  const checkHidden = (known) => {
    const cpu = cpuOf(known);
    if (!cpu || !known.features) return known;
    const hidden = cpu[3].filter((isa) => isaMissing(isa, known.features.value).length);
    if (!hidden.length) return known;
    const words = `this ${cpu[1]} CPU does not show what ${hidden.join(", ")} need, as a virtual machine or the BIOS may hide it: what it shows is used`;
    return noting(known, known.features.source, words);
  };
  const wordsOf = (name) => name.toLowerCase().match(/[a-z0-9]+/g) || [];
  const listed = (field) =>
    Object.entries(rules.gpus).flatMap(([sm, gpu]) => gpu[field].map((part) => [wordsOf(part), Number(sm)]));
  const [products, virtual] = [listed("parts"), listed("vgpus")];
  const at = (words, part, place) => part.every((word, index) => words[place + index] === word);
  const findWords = (words) => {
    const spots = [];
    for (const [part, sm] of products)
      for (let place = 0; place + part.length <= words.length; place++)
        if (at(words, part, place)) spots.push([place, place + part.length, sm]);
    for (const [part, sm] of virtual)
      for (let place = 0; place + part.length < words.length; place++)
        if (at(words, part, place) && /^\d+[a-z]*$/.test(words[place + part.length]))
          spots.push([place, place + part.length + 1, sm]);
    const inside = (one, other) => other[1] - other[0] > one[1] - one[0] && other[0] <= one[0] && one[1] <= other[1];
    let whole = once(spots.filter((one) => !spots.some((other) => inside(one, other))).map((one) => one[2]));
    if (!whole.length)
      whole = once(products.filter(([part]) => part.join("") === words.join("")).map(([, sm]) => sm));
    return whole.length === 1 ? whole[0] : null;
  };
  const gpuOfName = (name) => {
    if (!name.endsWith("..")) return findWords(wordsOf(name));
    const [, start, cutWord] = /^([^]*?)([A-Za-z0-9]*)\.{2,}$/.exec(name);
    const words = wordsOf(start);
    const sm = findWords(words);
    if (sm === null) return null;
    for (const [part, other] of products) {
      if (other === sm) continue;
      for (let count = 1; count < part.length; count++)
        if (count <= words.length && at(words.slice(-count), part.slice(0, count), 0) && part[count].startsWith(cutWord.toLowerCase()))
          return null;
    }
    return sm;
  };
  const sameGeneration = (said, known) =>
    said ? split(said)[0].toLowerCase() === split(known)[0].toLowerCase() : true;
  const resolveGpu = (gpu, notes) => {
    const named = gpu.name ? gpuOfName(gpu.name.value) : null;
    if (gpu.sm) {
      if (named !== null && named !== gpu.sm.value)
        notes.push(note(gpu.sm.source, `says sm${gpu.sm.value} for ${label(gpu)}, ${rules.catalog} lists it as sm${named}: the former is used`));
      return gpu;
    }
    if (named === null) {
      notes.push(note(rules.catalog, `does not know ${label(gpu)}: its architecture is unknown`));
      return gpu;
    }
    const known = rules.gpus[named].generation;
    const said = gpu.generation ? gpu.generation.value : known;
    if (!sameGeneration(said, known)) {
      const words = `calls ${label(gpu)} ${said}, which ${rules.catalog} does not: its architecture is unknown`;
      notes.push(note(gpu.generation ? gpu.generation.source : rules.catalog, words));
      return gpu;
    }
    return { ...gpu, sm: fact(named, `${rules.catalog}, by the name ${label(gpu)}`) };
  };
  const smsOf = (known) =>
    known.gpus ? once(known.gpus.value.filter((gpu) => gpu.sm).map((gpu) => gpu.sm.value)).sort((a, b) => a - b) : null;
  const systemOfGpus = (known) => {
    for (const sm of smsOf(known) || []) {
      const gpu = rules.gpus[sm];
      if (!gpu) continue;
      if (!known.system && gpu.platforms.length === 1)
        known = { ...known, system: fact(gpu.platforms[0], `${rules.catalog}, by sm${sm}`) };
      else if (known.system && !gpu.platforms.includes(known.system.value)) {
        const words = `says ${known.system.value}, but sm${sm} (${gpu.title}) is found on ${gpu.platforms.join(" and ")} alone`;
        known = noting(known, known.system.source, words);
      }
    }
    return known;
  };
  const resolve = (said) => {
    const known = checkHidden(checkFeatures(featuresOfCpu(resolveCpu(said))));
    if (!known.gpus) return known;
    const notes = [...known.notes];
    const gpus = known.gpus.value.map((gpu) => resolveGpu(gpu, notes));
    const distinct = notes.filter((one, place) => notes.findIndex(sameNote(one)) === place);
    return systemOfGpus({ ...known, gpus: fact(gpus, known.gpus.source), notes: distinct });
  };

  // ---- which of the cells run there ----
  const reason = (code, words, hint = "") => ({ code, words, hint });
  const told = (one) => one.words + (one.hint ? ` (${one.hint})` : "");
  const cells = (rows) =>
    rows.map(([name, python, cuda, sm, isa, flavor, useless, unproved]) => ({ name, python, cuda, sm, isa, flavor, useless, unproved }));
  const judgeGpus = (host, cell, pro, contra) => {
    if (!host.sms || !host.sms.length) {
      const needs = `it needs a GPU that runs sm${cell.sm}`;
      if (host.sms === null) contra.push(reason("no-gpu-facts", `${needs}, and no GPU is known here`));
      else if (host.unknown.length)
        contra.push(reason("gpu-unknown", `the architecture of ${host.unknown.join(", ")} is unknown: no GPU build can be promised`));
      else contra.push(reason("no-gpu", `${needs}, and the machine has no NVIDIA GPU`));
      return [[], []];
    }
    const exact = host.sms.filter((sm) => sm === cell.sm);
    const [compatible, refused] = [[], []];
    pro.push(...exact.map((sm) => `sm${sm} runs its own code`));
    for (const sm of host.sms) {
      if (exact.includes(sm)) continue;
      const gpu = rules.gpus[sm];
      if (!gpu) {
        refused.push(`sm${sm} is not in the catalog, so only code for sm${sm} itself is known to run there`);
        continue;
      }
      const [runs, words] = gpu.runs[cell.sm];
      (runs ? pro : refused).push(words);
      if (runs) compatible.push(sm);
    }
    if (!exact.length && !compatible.length) contra.push(reason("gpu", refused.join("; ")));
    return [exact, compatible];
  };
  const judgeDriver = (host, cell, used, pro, contra, provided) => {
    const toolkit = rules.drivers[cell.cuda];
    const gpus = used.filter((sm) => rules.gpus[sm]);
    if (!host.driver) {
      const floor = gpus.map((sm) => rules.gpus[sm].driver).sort(compare).at(-1);
      if (host.sms && host.sms.length && (!floor || compare(floor, toolkit.least) < 0))
        provided.push(reason("driver", `the driver is ${driverText(toolkit.least)} or newer`));
      return;
    }
    const needed = [toolkit.least, ...gpus.map((sm) => rules.gpus[sm].driver)].sort(compare).at(-1);
    const cure = `update the driver to ${driverText(needed)} or newer`;
    const step = toolkit.steps.filter(([from]) => compare(host.driver, from) >= 0).at(-1);
    const words = step[2].replace("{driver}", driverText(host.driver));
    if (step[1]) pro.push(words);
    else contra.push(reason("driver", words, cure));
    for (const sm of gpus) {
      const least = rules.gpus[sm].driver;
      if (compare(host.driver, least) < 0)
        contra.push(reason("driver", `driver ${driverText(host.driver)} does not know sm${sm}, which needs ${driverText(least)} or newer`, cure));
    }
  };
  const judgeCpu = (host, cell, pro, contra, provided) => {
    const isa = rules.isas[cell.isa];
    if (host.system === null) provided.push(reason("system", `the machine is ${isa.platform}`));
    else if (host.system !== isa.platform) {
      contra.push(reason("system", `it is for ${isa.platform}, the machine is ${host.system}`));
      return;
    }
    if (host.features === null) {
      provided.push(reason("isa", `the CPU has ${isa.needs.join(", ")}`));
      return;
    }
    const missing = isaMissing(cell.isa, host.features);
    if (missing.length) contra.push(reason("isa", isa.lacks.replace("{missing}", missing.join(", "))));
    else pro.push(isa.has);
  };
  const judge = (host, cell) => {
    const [pro, provided] = [[], []];
    const contra = cell.useless.map(([words, hint]) => reason("", words, hint));
    let [exact, compatible] = [[], []];
    if (cell.cuda) {
      [exact, compatible] = judgeGpus(host, cell, pro, contra);
      judgeDriver(host, cell, [...exact, ...compatible], pro, contra, provided);
    }
    judgeCpu(host, cell, pro, contra, provided);
    const used = [...exact, ...compatible];
    const idle = (host.sms || []).filter((sm) => !used.includes(sm));
    return { cell, fits: !contra.length, contra, exact, compatible, used, idle, pro, provided };
  };

  // ---- the order of those that run ----
  const assumes = (fit, code) => fit.provided.some((one) => one.code === code);
  const criteria = (workload) => {
    const { places } = rules.workloads[workload];
    const version = (cell) => cell.cuda.split(".").map(Number);
    return [
      [(fit) => fit.idle.length, (fit) => `it leaves ${fit.idle.map((sm) => `sm${sm}`).join(", ")} idle`],
      [(fit) => fit.provided.length, (fit) => `it runs only if ${fit.provided.map((one) => one.words).join(" and ")}`],
      [
        (fit) => [-fit.exact.length, fit.compatible.reduce((sum, sm) => sum + sm - fit.cell.sm, 0)],
        (fit, best) => `it runs as compatible code, and sm${best.cell.sm} is nearer to the GPU`,
      ],
      [
        (fit) => [assumes(fit, "isa") ? rules.isas[fit.cell.isa].level : 0, places[fit.cell.isa]],
        (fit, best) => `${best.cell.isa} comes before ${fit.cell.isa} for ${workload} use`,
      ],
      [(fit) => (fit.cell.unproved.length ? 1 : 0), (fit) => `nobody proved it: ${fit.cell.unproved[0]}`],
      [
        (fit) =>
          fit.cell.cuda
            ? [assumes(fit, "driver") ? rules.drivers[fit.cell.cuda].least : [], ...version(fit.cell).map((part) => -part)]
            : [],
        (fit, best) =>
          `CUDA ${best.cell.cuda || "None"} ${assumes(fit, "driver") ? "asks less of a driver that is not known" : "is newer and runs too"}`,
      ],
      [(fit) => fit.cell.flavor, (fit) => `it is a ${rules.flavors[fit.cell.flavor]} build`],
      [(fit) => fit.cell.python.map((part) => -part), (fit, best) => `Python ${best.cell.python.join(".")} is newer`],
    ];
  };
  const rank = (host, all, workload) => {
    const verdicts = all.map((cell) => judge(host, cell));
    const keys = criteria(workload);
    const { places } = rules.workloads[workload];
    const distance = (miss) => {
      const hard = once(miss.contra.map((one) => one.code)).reduce((sum, code) => sum + (rules.hardness[code] ?? rules.hardness[""]), 0);
      const gaps = miss.cell.sm && host.sms ? host.sms.map((sm) => Math.abs(miss.cell.sm - sm)) : [];
      return [hard, gaps.length ? Math.min(...gaps) : 0, places[miss.cell.isa], miss.cell.name];
    };
    return {
      fits: sorted(verdicts.filter((one) => one.fits), (fit) => [...keys.map(([key]) => key(fit)), fit.cell.name]),
      misses: sorted(verdicts.filter((one) => !one.fits), distance),
    };
  };
  const groups = function* (all, size, from = 0) {
    if (!size) yield [];
    else
      for (let place = from; place <= all.length - size; place++)
        for (const rest of groups(all, size - 1, place + 1)) yield [all[place], ...rest];
  };
  const smallest = (gpus, fits) => {
    const best = new Map();
    fits.forEach((fit, place) => {
      const key = [...fit.used].sort((a, b) => a - b).join();
      if (key && !best.has(key)) best.set(key, [place, fit]);
    });
    for (let size = 1; size <= gpus.length; size++) {
      let chosen = null;
      for (const group of groups([...best.values()], size)) {
        const sum = group.reduce((all, [place]) => all + place, 0);
        if (gpus.every((sm) => group.some(([, fit]) => fit.used.includes(sm))) && (!chosen || sum < chosen[0]))
          chosen = [sum, group.map(([, fit]) => fit)];
      }
      if (chosen) return chosen[1];
    }
    return [];
  };
  const choose = (host, ranking) => {
    const all = host.sms || [];
    const gpus = all.filter((sm) => ranking.fits.some((fit) => fit.used.includes(sm)));
    const unserved = all.filter((sm) => !gpus.includes(sm));
    if (!gpus.length) return { variants: ranking.fits.slice(0, 1).map((fit) => ({ fit, gpus: [] })), unserved };
    const chosen = smallest(gpus, ranking.fits);
    const owner = new Map(
      gpus.map((sm) => {
        const running = chosen.filter((fit) => fit.used.includes(sm));
        return [sm, running.find((fit) => fit.exact.includes(sm)) || running[0]];
      })
    );
    return { variants: chosen.map((fit) => ({ fit, gpus: gpus.filter((sm) => owner.get(sm) === fit) })), unserved };
  };
  const wanted = (host, ranking, choice, workload) => {
    const served = new Set(ranking.fits.flatMap((fit) => fit.exact));
    const lacking = (host.sms || []).filter((sm) => !served.has(sm));
    if (!lacking.length && choice.variants.length) return [];
    const may = cells(rules.possible).filter((cell) => !cell.sm || (host.sms || []).includes(cell.sm));
    const possible = rank(host, may, workload);
    if (!lacking.length) return possible.fits.slice(0, 1);
    const found = lacking.map((sm) => possible.fits.find((fit) => fit.exact.includes(sm))).filter(Boolean);
    return !found.length && !choice.variants.length ? possible.fits.slice(0, 1) : found;
  };
  const machine = (known, host) => {
    const names = known.gpus ? known.gpus.value.map(label) : [];
    const counted = once(names).map((name) => {
      const count = names.filter((other) => other === name).length;
      return count > 1 ? `${count} x ${name}` : name;
    });
    const words = [host.system || "system unknown"];
    if (host.features === null) words.push("CPU unknown");
    else {
      const able = Object.keys(rules.isas).filter((isa) => rules.isas[isa].platform === host.system && !isaMissing(isa, host.features).length);
      able.sort((one, other) => rules.isas[other].level - rules.isas[one].level);
      words.push(able.length ? `CPU runs ${able.join(", ")}` : "CPU runs none of the instruction sets here");
    }
    words.push(counted.join(", ") || (known.gpus ? "no NVIDIA GPU" : "GPUs unknown"));
    if (host.sms && host.sms.length) words.push(`driver ${host.driver ? driverText(host.driver) : "unknown"}`);
    return words.join("; ");
  };

  // The answer for some pasted reports, each with a name: what `pick --json` says.
  const answer = (reports, workload) => {
    const known = resolve(merge(reports.map(([name, pasted]) => readReport(pasted, name))));
    const host = {
      system: known.system ? known.system.value : null,
      features: known.features ? known.features.value : null,
      driver: known.driver ? known.driver.value : null,
      sms: smsOf(known),
      unknown: once((known.gpus ? known.gpus.value : []).filter((gpu) => !gpu.sm).map(label)),
    };
    const ranking = rank(host, cells(rules.cells), workload);
    const choice = choose(host, ranking);
    const chosen = choice.variants.map((one) => one.fit);
    const keys = criteria(workload);
    const after = (fit, best) => {
      const key = keys.find(([of]) => compare(of(fit), of(best)));
      return key ? key[1](fit, best) : "it is as good";
    };
    const exact = choice.variants.flatMap((one) =>
      one.gpus.filter((sm) => !one.fit.exact.includes(sm)).flatMap((sm) => {
        const fit = ranking.fits.find((other) => other.exact.includes(sm));
        return fit ? [[`sm${sm}`, fit.cell.name]] : [];
      })
    );
    const names = (sms) => sms.map((sm) => `sm${sm}`);
    return {
      machine: machine(known, host),
      gpus_known: host.sms !== null,
      unknown_gpus: host.unknown,
      workload,
      choice: choice.variants.map(({ fit, gpus }) => ({
        name: fit.cell.name,
        gpus: names(gpus),
        idle: fit.used.length ? [] : names(fit.idle),
        compiled_for: names(fit.exact),
        reasons: fit.pro,
        provided: fit.provided.map(told),
        unproved: fit.cell.unproved,
        commands: rules.commands.map((words) => words.replace("{name}", fit.cell.name)),
      })),
      unserved: names(choice.unserved),
      companions: chosen.flatMap((fit) => rules.companions[fit.cell.name] || []),
      compiled_for_one: Object.fromEntries(exact),
      create: wanted(host, ranking, choice, workload).map((fit) => ({ name: fit.cell.name, unproved: fit.cell.unproved })),
      others: [
        ...ranking.fits
          .filter((fit) => !chosen.includes(fit))
          .map((fit) => ({ name: fit.cell.name, why: chosen.length ? `runs, but ${after(fit, chosen[0])}` : "runs" })),
        ...ranking.misses.map((miss) => ({ name: miss.cell.name, why: miss.contra.map(told).join("; ") })),
      ],
      notes: known.notes.map((one) => `${one.source}: ${one.words}`),
    };
  };
  return { answer, Unread };
};
