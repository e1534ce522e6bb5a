"""How events become a state. Pure, and used by the job, the gateway and the tests."""
