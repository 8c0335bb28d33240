"""The built-in load client: streams against any OpenAI endpoint, several processes, standard library, Python 3.9+.

Copied to a host inside the agent bundle and run there: `agent.pyz load < REQUEST`; see `__main__`.
Times come from one monotonic clock (CLOCK_MONOTONIC, the same in all processes of a machine); a jump of the wall
clock changes no figure. What is measured, per request:

- start: when the client begins to connect. Each request has a connection of its own, as with the engine's client.
- TTFT: start to the first chunk that carries text. E2E: start to the last event of the stream.
- TPOT = (E2E - TTFT) / (output tokens - 1). ITL: the gaps between chunks that carry text.

AIPerf calls the third one ITL; here, as in SGLang's and vLLM's own clients, ITL is the fourth.
"""
