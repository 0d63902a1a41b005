// "Which one is mine?": walks the tables that page/rules.py exports. It knows no GPU, CPU, driver or threshold.
const whichIsMine = (rules) => {
  const { once, compare } = pythonText;
  const all = machineFacts(rules);
  const { Unread, label, driverText } = all;
  const { readReport, merge } = reportReader(rules.reports, all);
  const { resolve, smsOf, isaMissing } = catalogResolver(rules, all);
  const { cells, rank, choose, criteria, wanted } = cellRanking(rules, isaMissing, driverText);
  const told = (one) => one.words + (one.hint ? ` (${one.hint})` : "");
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
