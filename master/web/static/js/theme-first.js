// Sets the chosen theme before the first paint; a module would come too late.
(() => {
  const theme = localStorage.getItem("mlbench-theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
})();
