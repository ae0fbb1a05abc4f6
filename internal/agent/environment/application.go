package environment

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// Application is a metrics endpoint of the application. The injector reads it from the prometheus
// annotations of the pod before it replaces them by the agent's.
type Application struct {
	Port uint32
	// Path begins with a slash.
	Path string
}

// scrapeSettings is the value of ISTIO_PROMETHEUS_ANNOTATIONS, as the injector writes it. Targets
// take precedence over Port and Path.
type scrapeSettings struct {
	Scrape string `json:"scrape"`
	scrapeTarget
	Targets []scrapeTarget `json:"targets"`
}

type scrapeTarget struct {
	Port string `json:"port"`
	Path string `json:"path"`
}

// readApplications parses {"scrape":"true","port":"9080","path":"/metrics"}, perhaps with a list of
// targets, whose ports and paths then apply instead. It returns nil if the variable is not set or
// scrape is "false". As in Istio, port defaults to 80 and path to /metrics. An invalid value is
// recorded as an error of the variable, and the result is nil.
func (r *reader) readApplications(name string) []Application {
	var s scrapeSettings
	if !r.readJSON(name, "a JSON object with scrape, port, path and targets", &s) || s.Scrape == "false" {
		return nil
	}
	if len(s.Targets) == 0 {
		s.Targets = []scrapeTarget{s.scrapeTarget}
	}
	list := make([]Application, len(s.Targets))
	for i, t := range s.Targets {
		var err error
		if list[i], err = t.application(); err != nil {
			r.addError(name, "%w", err)
			return nil
		}
	}
	return list
}

// application returns the endpoint of the target with the defaults of its port and path. A missing
// leading slash is added. It returns an error for an invalid port.
func (t scrapeTarget) application() (Application, error) {
	port, err := strconv.ParseUint(cmp.Or(t.Port, "80"), 10, 16)
	if err != nil || port == 0 {
		return Application{}, fmt.Errorf("invalid port %q", t.Port)
	}
	path := cmp.Or(t.Path, "/metrics")
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	return Application{Port: uint32(port), Path: path}, nil
}
