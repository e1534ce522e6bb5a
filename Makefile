.PHONY: fast check test up down

fast: ; ./headrace test -m fast
check: ; ./headrace test -m "not stack"
test: ; ./headrace test
up: ; ./headrace up
down: ; ./headrace stop
