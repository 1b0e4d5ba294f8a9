// A page that is a file: its address names its content, and its links lead to data in the file or to other files.

import { fileOf, find } from "./source.js";

function lead(/** @type {Element} */ link) {
  const path = link.getAttribute("href");
  const response = find(path);
  const content = response === undefined ? null : new Blob([JSON.stringify(response, null, 2)], { type: "application/json" });
  const target = fileOf(path) ?? (content && URL.createObjectURL(content));
  if (target) link.setAttribute("href", target);
  else link.removeAttribute("href");
}

const leadAll = () => document.querySelectorAll('a[href^="/"]').forEach(lead);

// Modules of the page read the address as soon as they are loaded. The file has the data of its own
// runs and target only; an axis or a metric may be chosen by the address.
const params = new URLSearchParams(location.search);
params.delete("target");
new URLSearchParams(document.getElementById("data").dataset.address).forEach((value, name) => params.set(name, value));
if (params.size) history.replaceState(null, "", `?${params}`.replaceAll("%2C", ","));
new MutationObserver(leadAll).observe(document.body, { subtree: true, childList: true, attributeFilter: ["href"] });
leadAll();
