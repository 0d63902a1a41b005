// Which tool wrote a text, and one machine out of several reports.
const reportReader = (R, all) => {
  const { Unread, FIELDS, fact, nothing, note, sameNote, noting, gpuFacts, label, driverOf, driverText, smOf } = all;
  const { search, compare } = pythonText;
  const { readCpuinfo, readLscpu, readProfiler, readSysctl } = cpuReports(R, all);
  const { readNvidiaSmi, readDriverFile, readLspci, readAmdTool } = gpuReports(R, all);
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
  const fill = (gpu, other, notes) => {
    if (gpu.sm && other.sm && gpu.sm.value !== other.sm.value) {
      const used = `${gpu.sm.source} says sm${gpu.sm.value}, which is used`;
      notes.push(note(other.sm.source, `says sm${other.sm.value} for ${label(gpu)}, but ${used}`));
    }
    const both = { ...gpu };
    for (const field of ["name", "sm", "memory_mib", "generation", "mig", "address"]) both[field] = gpu[field] || other[field];
    return both;
  };
  return { readReport, merge };
};
