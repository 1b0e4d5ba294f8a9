// Sorts the rows of a table by the column whose heading is pressed; once more turns the order round.
for (const head of document.querySelectorAll("th")) {
  head.querySelector("button").addEventListener("click", () => {
    const falls = head.getAttribute("aria-sort") === "ascending";
    for (const other of head.parentElement.children) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", falls ? "descending" : "ascending");
    const value = (row) => row.cells[head.cellIndex].dataset.order;
    const isNumber = head.classList.contains("figure");
    const compare = (a, b) => (isNumber ? value(a) - value(b) || 0 : value(a).localeCompare(value(b)));
    const body = head.closest("table").tBodies[0];
    const rows = [...body.rows].sort(compare);
    body.append(...(falls ? rows.reverse() : rows));
  });
}
