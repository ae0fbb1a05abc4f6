package main

import (
	"context"
	"fmt"
	"os"
	"reflect"
	"slices"
	"time"

	"github.com/hashicorp/consul/api"
	"github.com/spf13/cobra"
)

// pollCommand polls as the former Consul adapters of service meshes did: all services, one query after
// the other, with an interval. It only decodes the answers and compares them with the ones before, and
// pushes nothing, so its CPU time is a lower bound.
func pollCommand() *cobra.Command {
	var url string
	var interval time.Duration
	c := &cobra.Command{
		Use: "poll", Short: "Poll all services", Args: cobra.NoArgs, Hidden: true,
		RunE: func(c *cobra.Command, _ []string) error { return poll(c.Context(), url, interval) },
	}
	c.Flags().StringVar(&url, "url", "", "Consul server")
	c.Flags().DurationVar(&interval, "interval", 2*time.Second, "time between the begin of two rounds")
	return c
}

func poll(ctx context.Context, url string, interval time.Duration) error {
	client, err := api.NewClient(&api.Config{Address: url})
	if err != nil {
		return err
	}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	last := map[string][]*api.ServiceEntry{}
	for rounds, changes := 1, 0; ; rounds++ {
		services, _, err := client.Catalog().Services(nil)
		if err != nil {
			return err
		}
		for name := range services {
			entries, _, err := client.Health().Service(name, "", false, nil)
			if err != nil {
				return err
			}
			slices.SortFunc(entries, func(a, b *api.ServiceEntry) int { return compareNodes(a, b) })
			if before, known := last[name]; known && !reflect.DeepEqual(before, entries) {
				changes++
			}
			last[name] = entries
		}
		fmt.Fprintf(os.Stderr, "round %d: %d services, %d changes so far\n", rounds, len(services), changes)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func compareNodes(a, b *api.ServiceEntry) int {
	switch {
	case a.Node.Node < b.Node.Node:
		return -1
	case a.Node.Node > b.Node.Node:
		return 1
	default:
		return 0
	}
}
