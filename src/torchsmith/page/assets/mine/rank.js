// Which cells run on a machine and why, in what order, and the choice among them.
const cellRanking = (rules, isaMissing, driverText) => {
  const { once, compare, sorted } = pythonText;
  const reason = (code, words, hint = "") => ({ code, words, hint });
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

  // The order of those that run.
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
  return { cells, rank, choose, criteria, wanted };
};
