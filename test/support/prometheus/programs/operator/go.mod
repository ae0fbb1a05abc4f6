module github.com/meshpilot/meshpilot/test/support/prometheus/programs/operator

go 1.26.0

require github.com/prometheus-operator/prometheus-operator v0.92.1
