// Sorts the rows of a table by the column whose heading is pressed; once more turns the order round.
for (const head of document.querySelectorAll("th")) {
  head.querySelector("button").addEventListener("click", () => {
    const falls = head.getAttribute("aria-sort") === "ascending";
    for (const other of head.parentElement.children) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", falls ? "descending" : "ascending");
    const text = (row) => row.cells[head.cellIndex].textContent;
    const number = (row) => (text(row) === "-" ? Number.MAX_VALUE : Number(text(row).replaceAll(",", "")));
    const isNumber = head.classList.contains("figure");
    const compare = (a, b) => (isNumber ? number(a) - number(b) : text(a).localeCompare(text(b)));
    const body = head.closest("table").tBodies[0];
    const rows = [...body.rows].sort(compare);
    body.append(...(falls ? rows.reverse() : rows));
  });
}
