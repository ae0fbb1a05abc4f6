package replay

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"syscall"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/meshpilot/meshpilot/test/perf/target"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// Run starts the control plane with the settings in a file, which [target.Plane] has written, but on
// free ports. It serves the control plane's responses at the addresses in the settings until the
// context ends. The pages for heap and metrics at these addresses show this process.
func Run(ctx context.Context, binary, settingsFile string) error {
	text, err := os.ReadFile(settingsFile)
	if err != nil {
		return err
	}
	var own target.Settings
	if err := json.Unmarshal(text, &own); err != nil {
		return fmt.Errorf("read %s: %w", settingsFile, err)
	}
	ports, err := serving.ReservePorts(3)
	if err != nil {
		return err
	}
	addressOf := func(i int) string { return fmt.Sprintf("127.0.0.1:%d", ports[i]) }
	child := own
	child.XDS, child.HTTP, child.Monitoring, child.Keys = addressOf(0), addressOf(1), addressOf(2), nil
	process, err := target.Plane{Kind: target.Meshpilot, Binary: binary}.Start(ctx, child, os.Stderr)
	if err != nil {
		return err
	}
	defer process.Stop(syscall.SIGTERM)
	c, address, err := credentialsOf(own)
	if err != nil {
		return err
	}
	s, err := New(child.XDS, c)
	if err != nil {
		return err
	}
	defer s.Stop()
	ended := make(chan error, 3)
	pages := http.NewServeMux()
	pages.HandleFunc("/debug/pprof/", pprof.Index)
	pages.HandleFunc("/debug/pprof/profile", pprof.Profile)
	pages.Handle("/metrics", promhttp.Handler())
	for _, at := range []string{own.HTTP, own.Monitoring} {
		go func() { ended <- http.ListenAndServe(at, pages) }()
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	go func() { ended <- s.GRPC().Serve(listener) }()
	select {
	case <-ctx.Done():
		return nil
	case <-process.Exited():
		return errors.New("the control plane has ended")
	case err := <-ended:
		return err
	}
}

// credentialsOf returns the credentials for proxies, and the address at which they connect.
func credentialsOf(s target.Settings) (credentials.TransportCredentials, string, error) {
	if s.Keys == nil {
		return insecure.NewCredentials(), s.XDS, nil
	}
	pair, err := tls.LoadX509KeyPair(s.Keys.Certificate, s.Keys.Key)
	if err != nil {
		return nil, "", err
	}
	authority, err := os.ReadFile(s.Keys.Authority)
	if err != nil {
		return nil, "", err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(authority) {
		return nil, "", fmt.Errorf("%s has no certificate", s.Keys.Authority)
	}
	return credentials.NewTLS(&tls.Config{
		Certificates: []tls.Certificate{pair}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert,
		MinVersion: tls.VersionTLS12,
	}), s.SecureXDS, nil
}
