// Command marathon is an adapter for Marathon: it serves Marathon's applications to control planes, by
// configuration over xDS. docs/PLATFORMS.md has the mapping, package marathon the client.
package main

import (
	"context"
	"flag"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"strings"

	"github.com/meshpilot/meshpilot/pkg/adapter"
	"github.com/meshpilot/meshpilot/samples/adapter/marathon/marathon"
)

func main() {
	var p marathon.Platform
	flag.StringVar(&p.URL, "marathon", "http://127.0.0.1:8080", "address of Marathon")
	flag.StringVar(&p.Namespace, "namespace", adapter.DefaultNamespace, "namespace of the services")
	flag.StringVar(&p.Domain, "domain", "marathon.mesos", "end of the hosts")
	credentials := flag.String("credentials", "", "file with user:password; read again for each request")
	address := flag.String("address", "127.0.0.1:15051", "where control planes read them")
	metrics := flag.String("metrics", "", "where /metrics and /ready are served (default: nowhere)")
	state := flag.String("state", "", "file that keeps the services over a restart")
	flag.Parse()
	if *credentials != "" {
		p.Client = &http.Client{Transport: basicAuth{*credentials}}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	o := adapter.Options{Platform: "Marathon", Address: *address, MetricsAddress: *metrics, StateFile: *state, Logger: log}
	if err := adapter.Run(ctx, &p, o); err != nil {
		log.Error("the adapter ends", "error", err)
		os.Exit(1) //nolint:gocritic // the signal handler ends with the process
	}
}

// basicAuth adds the credentials in a file to requests.
type basicAuth struct{ file string }

// RoundTrip implements http.RoundTripper.
func (b basicAuth) RoundTrip(r *http.Request) (*http.Response, error) {
	content, err := os.ReadFile(b.file)
	if err != nil {
		return nil, err
	}
	user, password, _ := strings.Cut(strings.TrimSpace(string(content)), ":")
	r = r.Clone(r.Context())
	r.SetBasicAuth(user, password)
	return http.DefaultTransport.RoundTrip(r)
}
