.PHONY: check test up down

check: ; ./headrace test -m "not stack"
test: ; ./headrace test
up: ; ./headrace up
down: ; ./headrace stop
