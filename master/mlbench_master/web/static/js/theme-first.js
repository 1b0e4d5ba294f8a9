// Sets the chosen theme before the first paint; modules run too late for that.
(() => {
  const theme = localStorage.getItem("mlbench-theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
})();
