// Command adapter is a sample of an adapter: it serves the services that a JSON file lists to control
// planes, by configuration over xDS. docs/ADAPTERS.md explains it.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"log/slog"
	"os"
	"os/signal"
	"time"

	"github.com/meshpilot/meshpilot/pkg/adapter"
)

func main() {
	file := flag.String("file", "services.json", "the services of the platform")
	address := flag.String("address", "127.0.0.1:15051", "where control planes read them")
	state := flag.String("state", "", "file that keeps the services over a restart")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	o := adapter.Options{Platform: "JSON", Address: *address, StateFile: *state, Logger: log}
	if err := adapter.Run(ctx, platform{*file}, o); err != nil {
		log.Error("the adapter ends", "error", err)
		os.Exit(1) //nolint:gocritic // the signal handler ends with the process
	}
}

// platform reads the file once a second. A real one would watch its API.
type platform struct{ file string }

// Watch implements adapter.Platform.
func (p platform) Watch(ctx context.Context, sink adapter.Sink) error {
	known := map[adapter.ServiceKey]bool{}
	for {
		content, err := os.ReadFile(p.file)
		var services []adapter.Service
		if err == nil {
			err = json.Unmarshal(content, &services)
		}
		if err != nil {
			return err // the last known services stay
		}
		gone := known
		known = map[adapter.ServiceKey]bool{}
		for _, s := range services {
			sink.Set(s)
			known[s.ServiceKey] = true
			delete(gone, s.ServiceKey)
		}
		for key := range gone {
			sink.Delete(key)
		}
		sink.SyncedGeneration("file") // a file that can be read has lost nothing
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Second):
		}
	}
}
