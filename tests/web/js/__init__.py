"""The modules that the pages share, called in the browser one by one."""
