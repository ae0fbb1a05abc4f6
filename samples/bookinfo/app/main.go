// Command bookinfo is one of Bookinfo's services:
//
//	bookinfo reviews --version v2
//
// It serves until SIGTERM, then finishes what is under way.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshpilot/meshpilot/samples/bookinfo/service"
)

// drainTime bounds how long requests that are under way may take after SIGTERM.
const drainTime = 10 * time.Second

func main() {
	if err := command().Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "bookinfo:", err)
		os.Exit(1)
	}
}

func command() *cobra.Command {
	opts := service.Options{Log: slog.New(slog.NewTextHandler(os.Stderr, nil))}
	var listen string
	cmd := &cobra.Command{
		Use:           "bookinfo productpage|details|reviews|ratings",
		Short:         "Run one of Bookinfo's services",
		Args:          cobra.ExactArgs(1),
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(_ *cobra.Command, args []string) error {
			opts.Name = args[0]
			return serve(listen, opts)
		},
	}
	hostname, _ := os.Hostname()
	f := cmd.Flags()
	f.StringVar(&listen, "listen", ":9080", "address to listen at")
	f.StringVar(&opts.Version, "version", or("SERVICE_VERSION", "v1"), "version of reviews: v1, v2 or v3")
	f.StringVar(&opts.PodName, "pod-name", or("HOSTNAME", hostname), "name that reviews tells about itself")
	f.StringVar(&opts.ClusterName, "cluster-name", or("CLUSTER_NAME", "null"), "cluster that reviews tells about itself")
	f.StringVar(&opts.Details, "details", or("DETAILS_ADDRESS", "details:9080"), "host:port of details")
	f.StringVar(&opts.Reviews, "reviews", or("REVIEWS_ADDRESS", "reviews:9080"), "host:port of reviews")
	f.StringVar(&opts.Ratings, "ratings", or("RATINGS_ADDRESS", "ratings:9080"), "host:port of ratings")
	f.StringVar(&opts.UnhealthyFile, "unhealthy-file", or("UNHEALTHY_FILE", ""), "answer /health with 503 while this file exists")
	return cmd
}

// or returns an environment variable, or what holds without it.
func or(name, otherwise string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return otherwise
}

func serve(address string, opts service.Options) error {
	handler, err := service.New(opts)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	srv := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	opts.Log.Info("serving", "service", opts.Name, "version", opts.Version, "address", l.Addr().String())

	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	opts.Log.Info("draining")
	drain, cancel := context.WithTimeout(context.Background(), drainTime)
	defer cancel()
	if err := srv.Shutdown(drain); err != nil {
		return fmt.Errorf("draining: %w", err)
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
