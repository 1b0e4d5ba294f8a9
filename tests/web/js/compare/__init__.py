"""The modules of the compare page, called in the browser one by one."""
