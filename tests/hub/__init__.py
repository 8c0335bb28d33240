"""A Hub of our own on the loopback: what the real huggingface_hub client asks for, with faults to switch on."""
