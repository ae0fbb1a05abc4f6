package eureka

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/test/support/pki"
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
	TLS *TLS

	t       testing.TB
	jar     string
	args    []string
	log     serving.Log
	process *exec.Cmd // nil while it does not run
	client  *http.Client
}

// TLS names the files of clients of a server with TLS.
type TLS struct{ CAFile, CertFile, KeyFile string }

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
	s := &Server{URL: fmt.Sprintf("http://127.0.0.1:%d/eureka", port), t: t, jar: jar, client: &http.Client{Timeout: 10 * time.Second}}
	s.args = []string{
		"-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-jar", jar, fmt.Sprintf("--server.port=%d", port), "--server.address=127.0.0.1",
		"--eureka.client.register-with-eureka=false", "--eureka.client.fetch-registry=false", "--eureka.server.wait-time-in-ms-when-sync-empty=0",
		"--eureka.server.response-cache-update-interval-ms=200", "--eureka.server.eviction-interval-timer-in-ms=1000", "--logging.level.root=warn",
	}
	if o.TLS {
		s.configureTLS(port)
	}
	t.Cleanup(func() {
		s.Kill()
		s.client.CloseIdleConnections()
		if t.Failed() {
			t.Logf("the log of the Eureka server:\n%s", s.log.String())
		}
	})
	s.Launch()
	return s
}

// configureTLS writes the certificates of a new authority, and sets the server and the test's client up
// with them.
func (s *Server) configureTLS(port int) {
	s.t.Helper()
	dir := s.t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	s.TLS = &TLS{CAFile: in("ca.pem"), CertFile: in("client.pem"), KeyFile: in("client-key.pem")}
	ca := pki.Authority("eureka")
	if err := os.WriteFile(s.TLS.CAFile, ca.CertificatePEM(), 0o600); err != nil {
		s.t.Fatal(err)
	}
	server := ca.Issue(&x509.Certificate{DNSNames: []string{"localhost"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	client := ca.Issue(&x509.Certificate{DNSNames: []string{"client"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	if err := server.WriteFiles(in("server.pem"), in("server-key.pem")); err != nil {
		s.t.Fatal(err)
	}
	if err := client.WriteFiles(s.TLS.CertFile, s.TLS.KeyFile); err != nil {
		s.t.Fatal(err)
	}
	pair, err := tls.LoadX509KeyPair(s.TLS.CertFile, s.TLS.KeyFile)
	if err != nil {
		s.t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca.CertificatePEM())
	s.client.Transport = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}}
	s.URL = fmt.Sprintf("https://localhost:%d/eureka", port)
	s.args = append(s.args, "--server.ssl.certificate="+in("server.pem"), "--server.ssl.certificate-private-key="+in("server-key.pem"),
		"--server.ssl.trust-certificate="+s.TLS.CAFile, "--server.ssl.client-auth=need")
}

// Launch starts the process if it does not run, and waits until it answers. It has no instances then.
func (s *Server) Launch() {
	s.t.Helper()
	if s.process != nil {
		return
	}
	s.process = exec.Command("java", s.args...)
	s.process.Stdout, s.process.Stderr = &s.log, &s.log
	if err := s.process.Start(); err != nil {
		s.t.Fatal(err)
	}
	serving.Eventually(s.t, patience, "Eureka answers", func() error { return s.send(http.MethodGet, "/apps", nil) })
}

// Kill ends the process. It does nothing if it does not run.
func (s *Server) Kill() {
	if s.process == nil {
		return
	}
	_ = s.process.Process.Kill() // it may have ended
	_ = s.process.Wait()
	s.process = nil
}

// Pause stops the process without ending it: its connections stay open and nothing answers.
func (s *Server) Pause() { s.signal(syscall.SIGSTOP) }

// Resume continues a paused process.
func (s *Server) Resume() { s.signal(syscall.SIGCONT) }

func (s *Server) signal(signal syscall.Signal) {
	s.t.Helper()
	if err := s.process.Process.Signal(signal); err != nil {
		s.t.Fatal(err)
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
