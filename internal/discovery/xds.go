package discovery

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/reflection"

	"github.com/meshpilot/meshpilot/internal/mesh"
	xds "github.com/meshpilot/meshpilot/internal/xds/server"
)

// serveXDS opens the xDS port when all sources are in sync, and serves until the context ends. Then streams are ended, and
// what is left after the shutdown duration is cut off.
func (s *server) serveXDS(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-s.ready.synced:
	}
	o := s.options
	if o.GRPCAddr == "" {
		s.ready.serving("")
		s.log.Info("not opened: --grpcAddr is empty, so no proxy can connect")
		<-ctx.Done()
		return nil
	}
	l, err := net.Listen("tcp", o.GRPCAddr)
	if err != nil {
		return fmt.Errorf("--grpcAddr: %w", err)
	}
	ads := xds.New(xds.Options{
		Pusher: s.pusher, Logger: s.logs.Scope("ads"), Metrics: s.metrics, MaxRequestsPerSecond: o.Push.MaxRequestsPerSecond,
		Identifier: o.PodName, ClusterAliases: aliases(o.ClusterAliases),
	})
	g := grpc.NewServer(xds.ServerOptions(xds.Transport{
		KeepaliveInterval: o.Keepalive.Interval, KeepaliveTimeout: o.Keepalive.Timeout, MaxAge: maxAge(o.Keepalive.MaxServerConnectionAge),
	})...)
	ads.Register(g)
	reflection.Register(g)
	ads.SetReady(true)
	s.ready.serving("")
	s.log.Info("serving xDS in plain text", "address", l.Addr().String())

	done := make(chan error, 1)
	go func() { done <- g.Serve(l) }()
	select {
	case err := <-done:
		return fmt.Errorf("--grpcAddr: %w", err)
	case <-ctx.Done():
	}
	s.ready.serving("stopping")
	ads.Stop()
	cut := time.AfterFunc(o.ShutdownDuration, g.Stop)
	defer cut.Stop()
	g.GracefulStop()
	if err := <-done; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("--grpcAddr: %w", err)
	}
	return nil
}

// maxAge gives the age at which connections are closed; the flag's default of about three hundred years is never.
func maxAge(d time.Duration) time.Duration {
	if d == math.MaxInt64 {
		return 0
	}
	return d
}

// aliases reads alias=cluster pairs, which Options.Validate has looked at.
func aliases(pairs []string) map[mesh.ClusterID]mesh.ClusterID {
	m := map[mesh.ClusterID]mesh.ClusterID{}
	for _, p := range pairs {
		if alias, cluster, ok := strings.Cut(p, "="); ok {
			m[mesh.ClusterID(alias)] = mesh.ClusterID(cluster)
		}
	}
	return m
}
