package environment

import (
	"fmt"
	"strconv"
	"strings"
)

// Application is where an application serves its metrics: the prometheus.io annotations that its pod had before the
// injector pointed them at the agent.
type Application struct {
	Port uint32
	// Path begins with a slash.
	Path string
}

// application reads {"scrape":"true","port":"9080","path":"/metrics"}.
func (r *reader) application(name string) *Application {
	a, err := ScrapeAnnotations(r.object(name))
	if err != nil {
		r.fail(name, "%w", err)
	}
	return a
}

// ScrapeAnnotations reads the values of prometheus.io/scrape, /port and /path, given without that prefix. Without a
// port, or with scraping switched off, there is no application to scrape and the result is nil.
func ScrapeAnnotations(values map[string]string) (*Application, error) {
	if values["port"] == "" {
		return nil, nil
	}
	if scrape := values["scrape"]; scrape != "" && scrape != "true" {
		return nil, nil
	}
	port, err := strconv.ParseUint(values["port"], 10, 16)
	if err != nil || port == 0 {
		return nil, fmt.Errorf("prometheus.io/port: %q is not a port", values["port"])
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
