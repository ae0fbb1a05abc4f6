package environment

import (
	"fmt"
	"strconv"
	"strings"
)

// Application is the metrics endpoint of the application: the prometheus.io annotations that its
// pod had before the injector replaced them by the agent's.
type Application struct {
	Port uint32
	// Path begins with a slash.
	Path string
}

// readApplication parses {"scrape":"true","port":"9080","path":"/metrics"}. It returns nil if there
// is nothing to scrape. An invalid value is recorded as an error of the variable, and the result is
// nil.
func (r *reader) readApplication(name string) *Application {
	a, err := ScrapeAnnotations(r.readStringMap(name))
	if err != nil {
		r.addError(name, "%w", err)
	}
	return a
}

// ScrapeAnnotations parses the values of prometheus.io/scrape, /port and /path, keyed without that
// prefix. It returns nil without an error if there is no port, or scrape is set and not "true". An
// invalid port is an error. The path defaults to /metrics, and a missing leading slash is added.
func ScrapeAnnotations(values map[string]string) (*Application, error) {
	if values["port"] == "" {
		return nil, nil
	}
	if scrape := values["scrape"]; scrape != "" && scrape != "true" {
		return nil, nil
	}
	port, err := strconv.ParseUint(values["port"], 10, 16)
	if err != nil || port == 0 {
		return nil, fmt.Errorf("prometheus.io/port: invalid port %q", values["port"])
	}
	path := values["path"]
	if path == "" {
		path = "/metrics"
	}
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	return &Application{Port: uint32(port), Path: path}, nil
}
