package discovery

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"flag"
	"fmt"
	mathrand "math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"
	security "istio.io/api/security/v1alpha1"

	"github.com/meshpilot/meshpilot/internal/identity/authenticate"
	"github.com/meshpilot/meshpilot/internal/identity/ca"
	"github.com/meshpilot/meshpilot/test/support/hostile"
	"github.com/meshpilot/meshpilot/test/support/longtest"
	"github.com/meshpilot/meshpilot/test/support/pki"
	"github.com/meshpilot/meshpilot/test/support/scorecard"
)

// Flags of the test binary must be defined before the testing package parses them.
var (
	hostileRequests = flag.Int("hostile", scorecard.BySize(longtest.Rounds(500, 6_000), 50_000, 100_000), "how many signing requests, and as many tokens, are generated")
	hostileSeed     = flag.Uint64("hostile-seed", 1, "of the generated ones")
)

const (
	hostileCallers = 4
	// hostileAccounts is the number of accounts that make the calls, because the certificate rate
	// is limited per account.
	hostileAccounts = 100
	// hostileTime is the maximum duration of a call on a busy machine.
	hostileTime = 5 * time.Second
	// hostileMemory is how much the heap of the process may grow.
	hostileMemory = 128 << 20
)

// hostileRun sends generated calls to a control plane over gRPC.
type hostileRun struct {
	*laptop
	roots   *x509.CertPool
	clients []security.IstioCertificateServiceClient

	mu      sync.Mutex
	codes   map[codes.Code]int
	kinds   map[string]int // of signed requests
	slowest time.Duration
	wrong   int
	heap    atomic.Uint64
}

func startHostileRun(t *testing.T) *hostileRun {
	t.Helper()
	l := startLaptop(t, func(o *Options) { o.Logs.Levels = "error" })
	var accounts []string
	for i := range hostileAccounts {
		accounts = append(accounts, hostileAccount(i))
	}
	l.write("accounts.yaml", groups(accounts...))
	h := &hostileRun{laptop: l, roots: l.roots(), codes: map[codes.Code]int{}, kinds: map[string]int{}}
	for range hostileCallers {
		h.clients = append(h.clients, security.NewIstioCertificateServiceClient(l.dial(nil)))
	}
	l.eventually("the last account is registered", func() error {
		namespace, name, _ := strings.Cut(accounts[len(accounts)-1], "/")
		_, err := l.certificate(bearing(context.Background(), l.token(namespace, name, time.Hour, "istio-ca")), nil, new(security.IstioCertificateRequest))
		return err
	})
	return h
}

func hostileAccount(i int) string { return fmt.Sprintf("n%d/account-%d", i%7, i) }

// each runs the calls of several callers concurrently, and measures memory meanwhile.
func (h *hostileRun) each(n int, call func(caller, i int)) {
	before := heapInUse()
	done := make(chan struct{})
	go func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(20 * time.Millisecond):
				if now := heapInUse(); now > before {
					h.heap.Store(max(h.heap.Load(), now-before))
				}
			}
		}
	}()
	var next atomic.Int64
	var wg sync.WaitGroup
	for caller := range hostileCallers {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && !h.t.Failed(); i = int(next.Add(1)) - 1 {
				call(caller, i)
			}
		})
	}
	wg.Wait()
	close(done)
}

func heapInUse() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse
}

// send makes a call, counts its status, and returns the certificate if one was issued.
func (h *hostileRun) send(caller int, token, kind string, r *security.IstioCertificateRequest) *x509.Certificate {
	began := time.Now()
	answer, err := h.clients[caller].CreateCertificate(bearing(h.t.Context(), token), r)
	took := time.Since(began)
	h.mu.Lock()
	h.slowest = max(h.slowest, took)
	h.codes[status.Code(err)]++
	if err == nil {
		h.kinds[kind]++
	}
	h.mu.Unlock()
	switch code := status.Code(err); code {
	case codes.OK:
		leaf, err := h.verified(answer.GetCertChain())
		if err != nil {
			h.fail("%s: the response contains no valid certificate of the mesh: %v", kind, err)
		}
		return leaf
	case codes.InvalidArgument, codes.Unauthenticated, codes.PermissionDenied:
	case codes.Internal: // gRPC's error for metadata that HTTP/2 cannot transport
		if !strings.Contains(err.Error(), "non-printable") {
			h.fail("%s: %v", kind, err)
		}
	default:
		h.fail("%s: %v", kind, err)
	}
	return nil
}

func (h *hostileRun) fail(format string, values ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.wrong++; h.wrong <= 10 {
		h.t.Errorf(format, values...)
	}
}

// verified parses a chain and verifies that it leads to the mesh's root.
func (h *hostileRun) verified(chain []string) (*x509.Certificate, error) {
	if len(chain) == 0 {
		return nil, fmt.Errorf("an empty chain")
	}
	block, _ := pem.Decode([]byte(chain[0]))
	if block == nil {
		return nil, fmt.Errorf("no PEM")
	}
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, err
	}
	at := time.Now()
	if at.After(leaf.NotAfter) { // a certificate requested for one second has expired
		at = leaf.NotAfter
	}
	_, err = leaf.Verify(x509.VerifyOptions{CurrentTime: at, Roots: h.roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
	return leaf, err
}

// checkLeaf checks that a certificate has only the expected identity and the extensions that the
// authority sets.
func (h *hostileRun) checkLeaf(kind, identity string, leaf *x509.Certificate) {
	known := []string{"2.5.29.15", "2.5.29.17", "2.5.29.19", "2.5.29.35", "2.5.29.37", "2.5.29.14"}
	switch {
	case len(leaf.URIs) != 1 || leaf.URIs[0].String() != identity:
		h.fail("%s: certificate has URIs %v, want %s", kind, leaf.URIs, identity)
	case leaf.IsCA || leaf.KeyUsage&(x509.KeyUsageCertSign|x509.KeyUsageCRLSign) != 0:
		h.fail("%s: certificate may sign others", kind)
	case len(leaf.DNSNames)+len(leaf.IPAddresses)+len(leaf.EmailAddresses)+len(leaf.Subject.Names) > 0:
		h.fail("%s: certificate has DNS names %v, IP addresses %v, e-mail addresses %v, subject %v", kind, leaf.DNSNames, leaf.IPAddresses, leaf.EmailAddresses, leaf.Subject)
	case leaf.NotAfter.After(time.Now().Add(91 * 24 * time.Hour)):
		h.fail("%s: certificate has NotAfter %v", kind, leaf.NotAfter)
	case slices.ContainsFunc(leaf.ExtKeyUsage, func(u x509.ExtKeyUsage) bool {
		return u != x509.ExtKeyUsageServerAuth && u != x509.ExtKeyUsageClientAuth
	}) || len(leaf.UnknownExtKeyUsage) > 0:
		h.fail("%s: certificate has key usages %v %v", kind, leaf.ExtKeyUsage, leaf.UnknownExtKeyUsage)
	}
	for _, e := range leaf.Extensions {
		if !slices.Contains(known, e.Id.String()) {
			h.fail("%s: certificate has extension %v", kind, e.Id)
		}
		if e.Id.Equal(asn1.ObjectIdentifier{2, 5, 29, 17}) && strings.ContainsFunc(string(e.Value[4:]), func(r rune) bool { return r < ' ' || r > '~' }) {
			h.fail("%s: subject alternative names = %q", kind, e.Value)
		}
	}
}

// report records the results, and checks that the control plane still signs.
func (h *hostileRun) report(check scorecard.Record, what string, n, signed int) {
	h.t.Helper()
	check.Measured(what+" sent", n)
	check.Measured(what+" that led to a certificate", signed)
	check.Measured(what+": wrong certificates or answers", h.wrong)
	check.Measured(what+": slowest answer", h.slowest)
	check.Measured(what+": heap growth MiB", int(h.heap.Load()>>20))
	h.t.Logf("%d %s: %v, signed %v, slowest %v, heap +%d MiB", n, what, h.codes, h.kinds, h.slowest, h.heap.Load()>>20)
	if h.slowest > hostileTime {
		h.t.Errorf("a call took %v", h.slowest)
	}
	if h.heap.Load() > hostileMemory {
		h.t.Errorf("the heap grew by %d MiB", h.heap.Load()>>20)
	}
	if signed*50 < n || signed == n {
		h.t.Errorf("%d of %d requests were signed: the test is not effective", signed, n)
	}
	if _, err := h.certificate(bearing(h.t.Context(), h.token("shop", "web", time.Hour, "istio-ca")), nil, new(security.IstioCertificateRequest)); err != nil {
		h.t.Errorf("a valid request afterwards failed: %v", err)
	}
}

// TestGeneratedSigningRequests sends generated signing requests with valid tokens over gRPC.
// Whatever they request, a certificate is issued only for the caller's identity and the key in the
// request, only the request fails, and time and memory are bounded.
func TestGeneratedSigningRequests(t *testing.T) {
	n := *hostileRequests
	check := scorecard.Check(t, 37, scorecard.Size("signing requests", n))
	h := startHostileRun(t)
	var generators [hostileCallers]*hostile.Requests
	tokens := make([]string, hostileAccounts)
	for i := range tokens {
		namespace, name, _ := strings.Cut(hostileAccount(i), "/")
		tokens[i] = h.token(namespace, name, time.Hour, "istio-ca")
	}
	for i := range generators {
		var err error
		if generators[i], err = hostile.NewRequests(*hostileSeed*hostileCallers + uint64(i)); err != nil {
			t.Fatal(err)
		}
	}
	var signed atomic.Int64
	h.each(n, func(caller, i int) {
		g := generators[caller]
		request := g.Next()
		r := &security.IstioCertificateRequest{Csr: request.Text, ValidityDuration: randomLifetime(g.Rand), Metadata: randomMetadata(g.Rand)}
		leaf := h.send(caller, tokens[i%hostileAccounts], request.Kind, r)
		if leaf == nil {
			return
		}
		signed.Add(1)
		namespace, name, _ := strings.Cut(hostileAccount(i%hostileAccounts), "/")
		h.checkLeaf(request.Kind, "spiffe://cluster.local/ns/"+namespace+"/sa/"+name, leaf)
		block, _ := pem.Decode([]byte(request.Text))
		asked, err := x509.ParseCertificateRequest(block.Bytes)
		if err != nil || asked.CheckSignature() != nil || !equalKeys(leaf, asked) {
			h.fail("%s: certificate for a key other than the request's, or for a request with an invalid signature: %v", request.Kind, err)
		}
	})
	h.report(check, "signing requests", n, int(signed.Load()))
}

func equalKeys(leaf *x509.Certificate, r *x509.CertificateRequest) bool {
	a, err1 := x509.MarshalPKIXPublicKey(leaf.PublicKey)
	b, err2 := x509.MarshalPKIXPublicKey(r.PublicKey)
	return err1 == nil && err2 == nil && slices.Equal(a, b)
}

func randomLifetime(r *mathrand.Rand) int64 {
	return []int64{0, 0, 3600, 1, -1, 1 << 33, 1 << 55, -1 << 63, 1<<63 - 1, 90 * 24 * 3600, 90*24*3600 + 1}[r.IntN(11)]
}

func randomMetadata(r *mathrand.Rand) *structpb.Struct {
	text := []string{"", "x", "istio-system/istiod", "spiffe://cluster.local/ns/istio-system/sa/istiod", strings.Repeat("a", 2000), "a\x00b"}[r.IntN(6)]
	name := []string{"CertSigner", "ImpersonatedIdentity", "other"}[r.IntN(3)]
	if r.IntN(5) > 0 {
		return nil
	}
	var value *structpb.Value
	switch r.IntN(3) {
	case 0:
		value = structpb.NewNullValue()
	case 1:
		value = structpb.NewListValue(&structpb.ListValue{Values: []*structpb.Value{structpb.NewStringValue(text)}})
	default:
		value = structpb.NewStringValue(text)
	}
	return &structpb.Struct{Fields: map[string]*structpb.Value{name: value}}
}

// TestGeneratedTokens sends valid signing requests with generated tokens over gRPC. A token without
// a signature of the server's key yields no certificate, and a signed token only one for its
// subject.
func TestGeneratedTokens(t *testing.T) {
	n := *hostileRequests
	check := scorecard.Check(t, 37, scorecard.Size("tokens", n))
	h := startHostileRun(t)
	key, err := ca.ReadTokenKey(h.caDir)
	if err != nil {
		t.Fatal(err)
	}
	example, err := authenticate.SignWorkloadToken(key, "shop", "web", []string{"istio-ca"}, time.Now(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	issuer, id := issuerAndKey(t, example)
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, pki.NewKey())
	if err != nil {
		t.Fatal(err)
	}
	csr := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
	known := map[string]string{} // identities by subject
	var subjects []string
	for i := range hostileAccounts {
		namespace, name, _ := strings.Cut(hostileAccount(i), "/")
		subjects = append(subjects, "system:serviceaccount:"+namespace+":"+name)
		known[subjects[i]] = "spiffe://cluster.local/ns/" + namespace + "/sa/" + name
	}
	known["system:serviceaccount:istio-system:istiod"] = "spiffe://cluster.local/ns/istio-system/sa/istiod"
	var generators [hostileCallers]*hostile.Tokens
	for i := range generators {
		generators[i] = &hostile.Tokens{
			Rand: mathrand.New(mathrand.NewPCG(*hostileSeed, uint64(i))), Issuer: issuer, Audience: "istio-ca", Subjects: subjects, KeyID: id, Key: key,
		}
	}
	var signed atomic.Int64
	h.each(n, func(caller, _ int) {
		token, err := generators[caller].Next()
		if err != nil {
			h.fail("%v", err)
			return
		}
		leaf := h.send(caller, token.Text, token.Kind, &security.IstioCertificateRequest{Csr: csr})
		if leaf == nil {
			return
		}
		signed.Add(1)
		if !token.Genuine {
			h.fail("%s: certificate issued for a forged token %.200q", token.Kind, token.Text)
		}
		if identity, ok := known[token.Subject]; !ok {
			h.fail("%s: certificate has URIs %v for the subject %q", token.Kind, leaf.URIs, token.Subject)
		} else {
			h.checkLeaf(token.Kind, identity, leaf)
		}
	})
	h.report(check, "tokens", n, int(signed.Load()))
}

// issuerAndKey returns the issuer of a token and the ID of its key.
func issuerAndKey(t *testing.T, token string) (issuer, id string) {
	t.Helper()
	parsed, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.ES256})
	if err != nil {
		t.Fatal(err)
	}
	var claims jwt.Claims
	if err := parsed.UnsafeClaimsWithoutVerification(&claims); err != nil {
		t.Fatal(err)
	}
	return claims.Issuer, parsed.Headers[0].KeyID
}
