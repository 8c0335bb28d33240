"""The plan: every choice of a deployment as plain data, made once; nothing downstream recomputes one."""
