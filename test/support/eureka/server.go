package eureka

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/test/support/pki"
	"github.com/meshpilot/meshpilot/test/support/process"
	"github.com/meshpilot/meshpilot/test/support/program"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// patience limits how long a server may take to answer. It needs some 20 seconds of one core.
const patience = 3 * time.Minute

// Options configure a Server.
type Options struct {
	// TLS serves HTTPS only and requires client certificates. Server.TLS has their files.
	TLS bool
}

// Server is a Eureka server that runs alone.
type Server struct {
	// URL is the address of its REST interface. It does not change when the server restarts.
	URL string
	// TLS has the files of clients; nil without Options.TLS.
	TLS *pki.Files

	*process.Process

	t      testing.TB
	args   []string
	client *http.Client
}

// Require skips a test unless MESHPILOT_PLATFORMS=true, because real Eureka servers need Java 17 and
// Maven. `make platforms` sets the variable; then a missing program fails the test.
func Require(t testing.TB) {
	t.Helper()
	if os.Getenv("MESHPILOT_PLATFORMS") != "true" {
		t.Skip("it needs a real Eureka server, with Java 17 and Maven: `make platforms` runs it")
	}
	if _, err := exec.LookPath("java"); err != nil {
		t.Fatal("`make platforms` needs Java 17: ", err)
	}
}

// Jar returns the path of the program. Maven builds it into the user's cache if it is missing.
func Jar(ctx context.Context, building func()) (string, error) {
	root, err := program.Root()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(root, "test", "support", "eureka", "programs", "eureka")
	target, err := program.MavenProject{Dir: dir, Name: "eureka"}.Build(ctx, building)
	return filepath.Join(target, "eureka-1.jar"), err
}

// Start starts a server and waits until it answers. It is killed when the test ends.
func Start(t testing.TB, o Options) *Server {
	t.Helper()
	jar, err := Jar(t.Context(), func() { t.Log("building the Eureka server: once") })
	if err != nil {
		t.Fatalf("build the Eureka server: %v", err)
	}
	port := serving.FreePort(t)
	s := &Server{
		URL: fmt.Sprintf("http://127.0.0.1:%d/eureka", port), Process: process.New(t, "the Eureka server"),
		t: t, client: &http.Client{Timeout: 10 * time.Second},
	}
	s.args = []string{
		"-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-jar", jar,
		fmt.Sprintf("--server.port=%d", port), "--server.address=127.0.0.1",
		"--eureka.client.register-with-eureka=false", "--eureka.client.fetch-registry=false",
		"--eureka.server.wait-time-in-ms-when-sync-empty=0",
		"--eureka.server.response-cache-update-interval-ms=200",
		// A list that is built while an instance registers is cached without it, by default for 180 s (docs/EUREKA.md).
		"--eureka.server.response-cache-auto-expiration-in-seconds=2",
		"--eureka.server.eviction-interval-timer-in-ms=1000", "--logging.level.root=warn",
	}
	if o.TLS {
		s.configureTLS(port)
	}
	t.Cleanup(s.client.CloseIdleConnections)
	s.Launch()
	return s
}

// configureTLS writes the certificates of a new authority, and sets the server and the test's client up
// with them.
func (s *Server) configureTLS(port int) {
	s.t.Helper()
	s.TLS = pki.NewFiles(s.t, "localhost")
	pair, err := tls.LoadX509KeyPair(s.TLS.CertFile, s.TLS.KeyFile)
	if err != nil {
		s.t.Fatal(err)
	}
	s.client.Transport = &http.Transport{TLSClientConfig: &tls.Config{
		RootCAs: s.TLS.CA.Pool(), Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12,
	}}
	s.URL = fmt.Sprintf("https://localhost:%d/eureka", port)
	s.args = append(s.args,
		"--server.ssl.certificate="+s.TLS.ServerCertFile,
		"--server.ssl.certificate-private-key="+s.TLS.ServerKeyFile,
		"--server.ssl.trust-certificate="+s.TLS.CAFile,
		"--server.ssl.client-auth=need",
	)
}

// Launch starts the process if it does not run, and waits until it answers. It has no instances then.
func (s *Server) Launch() {
	s.t.Helper()
	if s.Process.Start(exec.Command("java", s.args...)) {
		serving.Eventually(s.t, patience, "Eureka answers", func() error { return s.send(http.MethodGet, "/apps", nil) })
	}
}

// Register registers an instance whose VIP address is the name of its application. Its lease ends after
// this number of seconds without Heartbeat.
func (s *Server) Register(app, id, address string, port int, status string, lease int) {
	s.t.Helper()
	s.request(http.MethodPost, "/apps/"+app, map[string]any{"instance": map[string]any{
		"instanceId": id, "hostName": address, "app": app, "ipAddr": address, "status": status, "vipAddress": app,
		"port":           map[string]any{"$": port, "@enabled": "true"},
		"dataCenterInfo": map[string]any{"@class": "com.netflix.appinfo.InstanceInfo$DefaultDataCenterInfo", "name": "MyOwn"},
		"leaseInfo":      map[string]any{"renewalIntervalInSecs": max(1, lease/3), "durationInSecs": lease},
		"metadata":       map[string]any{},
	}})
}

// Deregister removes an instance.
func (s *Server) Deregister(app, id string) {
	s.t.Helper()
	s.request(http.MethodDelete, "/apps/"+app+"/"+id, nil)
}

// SetStatus overrides the status of an instance.
func (s *Server) SetStatus(app, id, status string) {
	s.t.Helper()
	s.request(http.MethodPut, "/apps/"+app+"/"+id+"/status?value="+status, nil)
}

func (s *Server) request(method, path string, body any) {
	s.t.Helper()
	if err := s.send(method, path, body); err != nil {
		s.t.Fatal(err)
	}
}

// send returns an error unless the server answers a request with success.
func (s *Server) send(method, path string, body any) error {
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return err
		}
		content = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(context.Background(), method, s.URL+path, content)
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	response, err := s.client.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil || response.StatusCode >= 300 {
		return fmt.Errorf("%s %s: status %d, %w", method, path, response.StatusCode, err)
	}
	return nil
}
