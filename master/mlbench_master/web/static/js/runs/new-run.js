// The dialog for a new run: it checks the form while one types, and shows the same as commands.

import { ApiError, get, post } from "../api.js";
import { byId, onSubmit, setNotice, setText } from "../dom.js";
import { copyButton } from "../ui.js";
import * as fields from "./fields.js";
import { CUSTOM, defaultName, problemsOf, toCommandLine, toCurl, toOrder } from "./order.js";

const LOST =
  "The master does not respond, but may have received the request: " +
  "check the list of runs before you start the run again.";

export class NewRun {
  /** @type {import("../records.js").Info | null} */
  #info = null;
  /** @type {import("../records.js").Benchmark[]} */
  #benchmarks = [];
  // The API's problems by field, until the field changes.
  #refused = {};
  // The fields in which the user has typed; problems of the others are shown on sending.
  #touched = new Set();
  #isNameOwn = false;
  #isSending = false;
  #active = null;

  constructor(/** @type {HTMLDialogElement} */ dialog) {
    this.dialog = dialog;
    this.form = dialog.querySelector("form");
    this.options = new fields.Options(() => this.#refresh());
    this.form.addEventListener("input", (event) => this.#onInput(event));
    onSubmit(this.form, () => this.#send());
    byId("cancel-run").addEventListener("click", () => dialog.close());
    for (const [id, what] of [["command-line", "the command line"], ["curl", "the curl line"]]) {
      const button = copyButton(() => byId(id).textContent, what);
      byId(id).previousElementSibling.append(button);
    }
  }

  /** Open the dialog; it keeps its values when it is closed. */
  async open() {
    this.dialog.showModal();
    this.#alert("");
    try {
      await this.#load();
    } catch (error) {
      this.#alert(`${error.message}. Close this dialog and open it again.`);
      return;
    }
    this.#suggestName();
    this.#refresh();
    fields.control("benchmark").focus();
  }

  /** Set the active run, which a new one can wait for; its id is 0 where it is not known. */
  setActive(/** @type {{ id: number, title: string } | undefined} */ run) {
    const isNew = run && run.id !== this.#active?.id;
    this.#active = run ?? null;
    fields.show("queue", Boolean(run));
    if (isNew) {
      fields.control("queue").checked = true;
      const which = run.id ? `Run ${run.id} (${run.title})` : "A run";
      setText(byId("hint-queue"), `${which} is active. This run waits in the queue.`);
    }
    if (this.#info) this.#refresh();
  }

  async #load() {
    if (this.#info) return;
    const [info, benchmarks] = await Promise.all([get("/api/info/"), get("/api/benchmarks/")]);
    this.#benchmarks = benchmarks;
    fields.offerBenchmarks(benchmarks);
    fields.control("benchmark").value = "digits";
    fields.setLimits(info);
    this.#info = info;
    this.#adapt();
    byId("new-run-loading").hidden = true;
    byId("new-run-body").hidden = false;
  }

  #onInput({ target }) {
    const name = target.name || "args";
    this.#touched.add(name);
    for (const field of Object.keys(this.#refused)) {
      if (field === name || field.startsWith(`${name}.`)) delete this.#refused[field];
    }
    if (name === "name") this.#isNameOwn = target.value !== "";
    if (name === "benchmark") this.#adapt();
    if (name === "benchmark" || name === "custom_image_command") this.#suggestName();
    this.#refresh();
  }

  #adapt() {
    const chosen = fields.control("benchmark").value;
    const benchmark = this.#benchmarks.find(({ name }) => name === chosen) ?? null;
    fields.adapt(benchmark, this.#info);
    this.options.suggest(benchmark ?? { options: [], rules: {} });
  }

  #suggestName() {
    if (this.#isNameOwn) return;
    fields.control("name").value = defaultName(fields.read());
  }

  #values() {
    const values = fields.read();
    return values.benchmark === CUSTOM ? values : { ...values, args: this.options.read() };
  }

  #refresh() {
    const values = this.#values();
    const order = toOrder(values);
    setText(byId("command-line"), toCommandLine(order, fields.flags()));
    setText(byId("curl"), toCurl(order, location.origin));
    fields.showLength(values.name);
    const problems = Object.entries(problemsOf(values, fields.bounds()));
    const touched = problems.filter(([field]) => this.#touched.has(field.split(".")[0]));
    this.#showProblems(Object.fromEntries(touched));
  }

  /** @returns {string[]} the problems that are shown beside no field. */
  #showProblems(own) {
    const problems = { ...this.#refused, ...own };
    for (const name of fields.names()) fields.showProblem(name, problems[name] ?? "");
    this.options.showProblems(problems);
    return Object.entries(problems)
      .filter(([field]) => !field.startsWith("args.") && !fields.isShown(field))
      .map(([field, problem]) => (field ? `${field}: ${problem}` : problem));
  }

  async #send() {
    if (this.#isSending || !this.#info) return;
    const values = this.#values();
    const problems = problemsOf(values, fields.bounds());
    this.#refused = {};
    this.#alert("");
    if (Object.keys(problems).length) {
      for (const field of Object.keys(problems)) this.#touched.add(field.split(".")[0]);
      this.#showProblems(problems);
      this.#focusWrong();
      return;
    }
    this.#setSending(true);
    try {
      const run = await post("/api/runs/", toOrder(values));
      location.assign(`/runs/${run.id}`);
    } catch (error) {
      this.#setSending(false);
      this.#refuse(error);
    }
  }

  #refuse(error) {
    if (!(error instanceof ApiError)) throw error;
    this.#refused = error.status === 400 ? error.fields : {};
    const unplaced = this.#showProblems({});
    if (error.status === 409) {
      fields.show("queue", true);
      fields.control("queue").checked = true;
      this.#refresh();
    }
    if (error.status === 0) this.#alert(LOST);
    else this.#alert(error.status === 400 ? unplaced.join("\n") : error.message);
    this.#focusWrong();
  }

  #focusWrong() {
    /** @type {HTMLElement | null} */
    const wrong = this.form.querySelector("[aria-invalid='true']");
    (wrong ?? byId("new-run-alert")).focus();
  }

  #setSending(isSending) {
    this.#isSending = isSending;
    byId("start-run").disabled = isSending;
    setText(byId("start-run"), isSending ? "Starting…" : "Start run");
  }

  #alert(text) {
    setNotice(byId("new-run-alert"), text);
  }
}
