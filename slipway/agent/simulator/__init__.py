"""A stand-in for SGLang: the same HTTP and PD contract and a timing model, with no model and no GPU.

It is for tests, staging and rehearsal, and it says so in every answer. Decode really fetches the state of a
prompt from prefill over prefill's bootstrap server, so a wrong address, port or setting really fails.
`python -m slipway.agent.simulator --model-path DIR --host H --port P [any SGLang flag]` starts it;
`--list-faults` prints what can be switched on with SLIPWAY_SIM_FAULTS.
Standard library only, Python 3.9 or later.
"""
