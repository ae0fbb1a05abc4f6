package identity

import (
	"bytes"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/meshpilot/meshpilot/test/resilience/zeroloss/echo"
	"github.com/meshpilot/meshpilot/test/resilience/zeroloss/load"
	"github.com/meshpilot/meshpilot/test/support/longtest"
	"github.com/meshpilot/meshpilot/test/support/pki"
	"github.com/meshpilot/meshpilot/test/support/scorecard"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// requestTime bounds a request: a longer call is counted as lost.
const requestTime = 10 * time.Second

// rotation changes the mesh's root as operators do, A, A and B, B, while every request of some lanes shakes hands again, and takes the
// authority away while certificates are due to be renewed: no request is lost.
func rotation(t *testing.T, w *world) {
	longtest.Test(t)
	check := scorecard.Check(t, 28, scorecard.Size("rotations", 1+*rounds))
	l := load.Start(w.lanes())
	defer l.Stop()
	from, signing := w.root, w.signing
	for round := range 1 + *rounds {
		to := pki.Authority(fmt.Sprint("B", round))
		next := intermediate(to)
		for _, step := range []struct {
			name    string
			signing *pki.Pair
			roots   []*pki.Pair
			// away is set if the authority is unreachable during the step, in which certificates
			// must be renewed.
			away bool
		}{
			{"the new root is trusted", signing, []*pki.Pair{from, to}, false},
			{"it signs, after the authority was away", next, []*pki.Pair{from, to}, true},
			{"the old one is trusted no more", next, []*pki.Pair{to}, false},
		} {
			l.During(step.name)
			began := time.Now()
			if step.away {
				w.away(t, func() { w.putAuthority(t, step.signing, step.roots...) })
			} else {
				w.putAuthority(t, step.signing, step.roots...)
			}
			w.putRoots(t, step.roots)
			serving.Eventually(t, effectTime, step.name, func() error {
				w.complaints(t)
				return w.goBy(t, step.signing, step.roots)
			})
			t.Logf("%s: after %s", step.name, time.Since(began).Round(time.Millisecond))
		}
		from, signing = to, next
	}
	w.root, w.signing = from, signing
	tally := l.Stop()
	all := tally.Sum(nil)
	check.Measured("requests", all.Sent)
	check.Measured("requests per second", int(tally.Rate()))
	check.Measured("requests lost", all.Failed)
	t.Logf("%d of %d requests lost in %s", all.Failed, all.Sent, tally.Elapsed.Round(time.Second))
	for _, f := range tally.Failures {
		t.Errorf("%s", f)
	}
	if all.Failed > 0 || tally.Rate() < 50 {
		t.Errorf("%d requests were lost, %.0f a second", all.Failed, tally.Rate())
	}
}

// lanes: each request of the first two shakes hands again, for connections are used once; the others have been there all the time.
func (w *world) lanes() []load.Lane {
	var list []load.Lane
	rates := map[echo.Kind]int{echo.HTTP: 50, echo.TCPOpen: 30, echo.HTTP2: 30, echo.GRPCStream: 20, echo.TCP: 20}
	if *rounds > 0 {
		for kind := range rates {
			rates[kind] *= 7
		}
	}
	for kind, rate := range rates {
		list = append(list, load.Lane{
			Name: string(kind), Kind: kind, Rate: rate, Workers: max(1, rate/20), Timeout: requestTime,
			Caller: func() echo.Caller { return echo.NewCaller(kind, w.dial(serverAddress), "server.mesh", ports()) },
		})
	}
	return list
}

// away takes the authority away until a certificate could not be renewed, and has something happen meanwhile.
func (w *world) away(t *testing.T, meanwhile func()) {
	t.Helper()
	if err := w.ControlPlane.Kill(); err != nil {
		t.Fatal(err)
	}
	meanwhile()
	before := w.complaints(t)
	serving.Eventually(t, effectTime, "a certificate is due while the authority is away", func() error {
		if w.complaints(t) == before {
			return errors.New("no agent has asked yet")
		}
		return nil
	})
	if err := w.ControlPlane.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// complaints counts the log lines of agents about failed renewals. An expired certificate ends the
// test.
func (w *world) complaints(t *testing.T) int {
	t.Helper()
	n := 0
	for _, workload := range w.Workloads {
		text, err := os.ReadFile(workload.Agent.LogPath())
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(text, []byte("workload certificate has expired")) {
			t.Fatalf("the certificate of %s has lapsed", workload.Pod.Name)
		}
		n += bytes.Count(text, []byte("cannot renew workload certificate"))
	}
	return n
}

// putRoots writes the roots that agents trust, as Kubernetes mounts them into pods.
func (w *world) putRoots(t *testing.T, roots []*pki.Pair) {
	t.Helper()
	for _, workload := range w.Workloads {
		path := filepath.Join(workload.Node.Dir(), "proxy", "var/run/secrets/istio/root-cert.pem")
		staged := path + ".new"
		if err := os.WriteFile(staged, pems(roots), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(staged, path); err != nil {
			t.Fatal(err)
		}
	}
}

// goBy is content when all sidecars have a certificate of an authority, and trust those roots and no others.
func (w *world) goBy(t *testing.T, signing *pki.Pair, roots []*pki.Pair) error {
	t.Helper()
	for _, workload := range w.Workloads {
		text, err := admin(t.Context(), workload.Node, "/config_dump?resource=dynamic_active_secrets")
		if err != nil {
			return err
		}
		own, trusted, err := secrets(text)
		if err != nil {
			return err
		}
		if len(own) == 0 || own[0].CheckSignatureFrom(signing.Certificate) != nil {
			return fmt.Errorf("%s has a certificate of another authority", workload.Pod.Name)
		}
		is := func(c *x509.Certificate) func(*pki.Pair) bool {
			return func(p *pki.Pair) bool { return p.Certificate.Equal(c) }
		}
		for _, c := range trusted {
			if !slices.ContainsFunc(roots, is(c)) {
				return fmt.Errorf("%s trusts %s", workload.Pod.Name, c.Subject)
			}
		}
		if len(trusted) != len(roots) {
			return fmt.Errorf("%s trusts %d roots", workload.Pod.Name, len(trusted))
		}
	}
	return nil
}

// secrets reads the SDS secrets of an Envoy: its own chain, and its trusted roots.
func secrets(text string) (own, trusted []*x509.Certificate, err error) {
	type data struct {
		InlineBytes  []byte `json:"inline_bytes"`
		InlineString string `json:"inline_string"`
	}
	var dump struct {
		Configs []struct {
			Name   string
			Secret struct {
				TLSCertificate struct {
					Chain data `json:"certificate_chain"`
				} `json:"tls_certificate"`
				ValidationContext struct {
					TrustedCA data `json:"trusted_ca"`
				} `json:"validation_context"`
			}
		}
	}
	if err := json.NewDecoder(strings.NewReader(text)).Decode(&dump); err != nil {
		return nil, nil, err
	}
	for _, c := range dump.Configs {
		switch c.Name {
		case "default":
			own, err = certificates(c.Secret.TLSCertificate.Chain.InlineBytes, c.Secret.TLSCertificate.Chain.InlineString)
		case "ROOTCA":
			trusted, err = certificates(c.Secret.ValidationContext.TrustedCA.InlineBytes, c.Secret.ValidationContext.TrustedCA.InlineString)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("reading %s: %w", c.Name, err)
		}
	}
	return own, trusted, nil
}

func certificates(text []byte, instead string) (list []*x509.Certificate, err error) {
	if len(text) == 0 {
		text = []byte(instead)
	}
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			return list, nil
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		list = append(list, c)
	}
}
