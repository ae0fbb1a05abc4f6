package ca

import (
	"context"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/meshpilot/meshpilot/internal/identity/authenticate"
	"github.com/meshpilot/meshpilot/internal/model/spiffe"
	"github.com/meshpilot/meshpilot/test/support/longtest"
	"github.com/meshpilot/meshpilot/test/support/pki"
	"github.com/meshpilot/meshpilot/test/support/serving"
)

// published is the roots that a publisher publishes, and what selects namespaces.
type published struct {
	mu      sync.Mutex
	text    string
	lists   string // of revoked certificates
	team    string // "" selects all
	changed chan struct{}
}

func (p *published) revoke(lists string) {
	p.mu.Lock()
	p.lists = lists
	text, team := p.text, p.team
	p.mu.Unlock()
	p.set(text, team)
}

func (p *published) revoked() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return []byte(p.lists)
}

func (p *published) set(text, team string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text, p.team = text, team
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *published) roots() ([]byte, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return []byte(p.text), p.changed
}

func (p *published) selection() <-chan struct{} {
	_, c := p.roots()
	return c
}

func (p *published) selects(labels map[string]string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.team == "" || labels["team"] == p.team
}

func TestRootsArePublished(t *testing.T) {
	longtest.Test(t) // the API server takes seconds to start
	c := shared.Start(t)
	client := c.Client(t)
	early := c.Namespace(t, "early", map[string]string{"team": "a"})
	p := &published{team: "a", changed: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- RootPublisher{Client: client, Roots: p.roots, RevocationLists: p.revoked, NamespaceSelected: p.selects, SelectionChanged: p.selection, Log: slog.New(slog.DiscardHandler)}.Run(ctx)
	}()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	get := func(namespace string) string {
		m, err := client.CoreV1().ConfigMaps(namespace).Get(t.Context(), "istio-ca-root-cert", metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
		return m.Data["root-cert.pem"]
	}
	want := func(namespace, text string) {
		t.Helper()
		serving.Until(t, limit, namespace+" has "+text, func() bool { return get(namespace) == text })
	}
	p.set("one", "a") // until now there was nothing to publish
	want(early, "one")
	late := c.Namespace(t, "late", map[string]string{"team": "a"})
	want(late, "one")
	other := c.Namespace(t, "other", map[string]string{"team": "b"})

	maps := client.CoreV1().ConfigMaps(early)
	if err := maps.Delete(t.Context(), RootConfigMap, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	want(early, "one")
	for _, patch := range []string{
		`{"data":{"root-cert.pem":"forged","mine":"kept"}}`, `{"data":{"root-cert.pem":null}}`, `{"metadata":{"labels":{"a":"b"}},"data":{"root-cert.pem":""}}`,
	} {
		if _, err := maps.Patch(
			t.Context(),
			RootConfigMap,
			types.MergePatchType,
			[]byte(patch),
			metav1.PatchOptions{},
		); err != nil {
			t.Fatal(err)
		}
		want(early, "one")
	}
	if m, err := maps.Get(t.Context(), RootConfigMap, metav1.GetOptions{}); err != nil || m.Data["mine"] != "kept" ||
		m.Labels["istio.io/config"] != "true" {
		t.Errorf("data and labels written by others were removed: %v %v %v", m.Data, m.Labels, err)
	}

	lists := func(namespace, text string) {
		t.Helper()
		serving.Until(t, limit, namespace+" revokes "+text, func() bool {
			m, err := client.CoreV1().ConfigMaps(namespace).Get(t.Context(), RootConfigMap, metav1.GetOptions{})
			there, has := m.Data["ca-crl.pem"]
			return err == nil && there == text && has == (text != "") && m.Data["root-cert.pem"] == "one"
		})
	}
	p.revoke("a list")
	lists(early, "a list")
	lists(late, "a list")
	p.revoke("")
	lists(early, "")

	p.set("two", "a")
	want(early, "two")
	want(late, "two")
	if get(other) != "" || get("kube-system") != "" {
		t.Error("a namespace that is not of the mesh has the roots")
	}
	if _, err := client.CoreV1().Namespaces().Patch(
		t.Context(),
		other,
		types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"team":"a"}}}`),
		metav1.PatchOptions{},
	); err != nil {
		t.Fatal(err)
	}
	want(other, "two")
	p.set("two", "") // all
	want("default", "two")
	if get("kube-system") != "" || get("kube-public") != "" {
		t.Error("Kubernetes' own namespaces have the roots")
	}
}

// signer signs requests for one signer's name as an external authority would, in the way that a test wants.
func signer(
	t *testing.T,
	client kubernetes.Interface,
	name string,
	sign func(*x509.CertificateRequest) ([]byte, error),
) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	requests := client.CertificatesV1().CertificateSigningRequests()
	w, err := requests.Watch(ctx, metav1.ListOptions{FieldSelector: "spec.signerName=" + name})
	if err != nil {
		t.Fatal(err)
	}
	var done sync.WaitGroup
	done.Go(func() {
		for e := range w.ResultChan() {
			r, ok := e.Object.(*certificatesv1.CertificateSigningRequest)
			if !ok || len(r.Status.Certificate) > 0 || len(r.Status.Conditions) != 1 ||
				r.Status.Conditions[0].Type != certificatesv1.CertificateApproved {
				continue
			}
			block, _ := pem.Decode(r.Spec.Request)
			csr, err := x509.ParseCertificateRequest(block.Bytes)
			if err != nil {
				t.Error(err)
				continue
			}
			text, err := sign(csr)
			r.Status.Certificate = text
			if err != nil {
				r.Status.Certificate = nil
				r.Status.Conditions = append(r.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
					Type:    certificatesv1.CertificateFailed,
					Status:  corev1.ConditionTrue,
					Reason:  "No",
					Message: err.Error(),
				})
			}
			if _, err := requests.UpdateStatus(ctx, r, metav1.UpdateOptions{}); err != nil && ctx.Err() == nil {
				t.Errorf("sign: %v", err)
			}
		}
	})
	t.Cleanup(func() {
		cancel()
		w.Stop()
		done.Wait()
	})
}

func TestRegistration(t *testing.T) {
	longtest.Test(t) // the API server takes seconds to start
	c := shared.Start(t)
	client := c.Client(t)
	root := pki.Authority("external")
	between := intermediate(root, &x509.Certificate{})
	id := parseID(t, "spiffe://cluster.local/ns/a/sa/b")
	good := func(r *x509.CertificateRequest) *x509.Certificate { return &x509.Certificate{URIs: r.URIs} }
	chain := func(by *pki.Pair, template func(*x509.CertificateRequest) *x509.Certificate) func(*x509.CertificateRequest) ([]byte, error) {
		return func(r *x509.CertificateRequest) ([]byte, error) {
			der, err := signFor(by, template(r), r.PublicKey)
			return append(der, between.CertificatePEM()...), err
		}
	}
	evil := parseID(t, "spiffe://cluster.local/ns/istio-system/sa/istiod")
	tests := map[string]struct {
		sign  func(*x509.CertificateRequest) ([]byte, error)
		cause Cause // "": good
	}{
		"good":           {chain(between, good), ""},
		"a foreign root": {chain(pki.Authority("foreign"), good), CauseSigning},
		"another identity": {chain(between, func(*x509.CertificateRequest) *x509.Certificate {
			return &x509.Certificate{URIs: []*url.URL{evil.URL()}}
		}), CauseSigning},
		"a name besides": {chain(between, func(r *x509.CertificateRequest) *x509.Certificate {
			return &x509.Certificate{URIs: r.URIs, DNSNames: []string{"x"}}
		}), CauseSigning},
		"an authority": {
			chain(
				between,
				func(r *x509.CertificateRequest) *x509.Certificate { return &x509.Certificate{URIs: r.URIs, IsCA: true} },
			),
			CauseSigning,
		},
		"good for too long": {chain(between, func(r *x509.CertificateRequest) *x509.Certificate {
			return &x509.Certificate{URIs: r.URIs, NotAfter: time.Now().Add(9000 * time.Hour)}
		}), CauseSigning},
		"another key": {func(*x509.CertificateRequest) ([]byte, error) {
			return between.Issue(&x509.Certificate{URIs: []*url.URL{id.URL()}}).CertificatePEM(), nil
		}, CauseSigning},
		"no": {func(*x509.CertificateRequest) ([]byte, error) { return nil, errors.New("not today") }, CauseSigning},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			named := strings.ReplaceAll(name, " ", "-")
			signer(t, client, "mesh.example.com/"+named, tt.sign)
			r := NewRegistration(RegistrationOptions{
				Signing: SigningRequests{
					Client:  client,
					Timeout: limit,
				},
				Signer:       "nobody.example.com/x",
				SignerDomain: "mesh.example.com",
			})
			if err := r.SetRoots(root.CertificatePEM()); err != nil {
				t.Fatal(err)
			}
			i, err := r.Issue(
				t.Context(),
				Request{
					ID:     id,
					CSR:    request(t, &x509.CertificateRequest{URIs: []*url.URL{id.URL()}}, nil),
					Signer: named,
				},
			)
			var no *IssueError
			if errors.As(err, &no) != (tt.cause != "") || no != nil && no.Cause != tt.cause {
				t.Fatalf("got error %v", err)
			}
			if err != nil {
				return
			}
			if named, err := spiffe.LeafID(i.Chain[0]); err != nil || named != id || len(i.Chain) != 2 ||
				!i.Roots[0].Equal(root.Certificate) {
				t.Errorf("it is %s (%v), %d certificates", named, err, len(i.Chain))
			}
		})
	}
	t.Cleanup(func() {
		left, err := client.CertificatesV1().CertificateSigningRequests().List(
			context.Background(),
			metav1.ListOptions{},
		)
		if err != nil || len(left.Items) > 0 {
			t.Errorf("%d requests are left, %v", len(left.Items), err)
		}
	})
}

func signFor(by *pki.Pair, template *x509.Certificate, key any) ([]byte, error) {
	t := *template
	t.SerialNumber, t.BasicConstraintsValid = by.Certificate.SerialNumber, true
	t.NotBefore = time.Now().Add(-time.Minute)
	if t.NotAfter.IsZero() {
		t.NotAfter = time.Now().Add(time.Hour)
	}
	if t.KeyUsage = x509.KeyUsageDigitalSignature; t.IsCA {
		t.KeyUsage = x509.KeyUsageCertSign
	}
	t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	der, err := x509.CreateCertificate(nil, &t, by.Certificate, key, by.Key)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), err
}

// TestRequestsThatAreNotHandedOn: refused requests create no CertificateSigningRequest.
func TestRequestsThatAreNotHandedOn(t *testing.T) {
	id := parseID(t, "spiffe://cluster.local/ns/a/sa/b")
	own := []*url.URL{id.URL()}
	r := NewRegistration(RegistrationOptions{Signer: "x/y"}) // a client that is nil would panic
	for name, q := range map[string]Request{
		"no name":         {CSR: request(t, &x509.CertificateRequest{}, nil)},
		"another":         {CSR: request(t, &x509.CertificateRequest{URIs: []*url.URL{{Scheme: "spiffe", Host: "cluster.local", Path: "/ns/a/sa/c"}}}, nil)},
		"two":             {CSR: request(t, &x509.CertificateRequest{URIs: append(own, own...)}, nil)},
		"DNS besides":     {CSR: request(t, &x509.CertificateRequest{URIs: own, DNSNames: []string{"x"}}, nil)},
		"other name":      {CSR: request(t, &x509.CertificateRequest{ExtraExtensions: []pkix.Extension{withOtherName(t, id)}}, nil)},
		"a subject":       {CSR: request(t, &x509.CertificateRequest{URIs: own, Subject: pkix.Name{CommonName: "admin"}}, nil)},
		"to be authority": {CSR: request(t, &x509.CertificateRequest{URIs: own, ExtraExtensions: []pkix.Extension{{Id: []int{2, 5, 29, 19}, Value: []byte{0x30, 3, 1, 1, 0xff}}}}, nil)},
		"a signer":        {CSR: request(t, &x509.CertificateRequest{URIs: own}, nil), Signer: "z"},
		"too long":        {CSR: request(t, &x509.CertificateRequest{URIs: own}, nil), Lifetime: 1 << 62},
	} {
		q.ID = id
		var no *IssueError
		if _, err := r.Issue(t.Context(), q); !errors.As(err, &no) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// withOtherName returns the subject alternative names id and user@example.com, the latter as
// otherName of Microsoft's type (userPrincipalName).
func withOtherName(t *testing.T, id spiffe.ID) pkix.Extension {
	t.Helper()
	type otherName struct {
		Type  asn1.ObjectIdentifier
		Value string `asn1:"explicit,tag:0,utf8"`
	}
	name, err := asn1.MarshalWithParams(otherName{asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 311, 20, 2, 3}, "user@example.com"}, "tag:0")
	if err != nil {
		t.Fatal(err)
	}
	value, err := asn1.Marshal([]asn1.RawValue{
		{Class: asn1.ClassContextSpecific, Tag: 6, Bytes: []byte(id.String())}, {FullBytes: name},
	})
	if err != nil {
		t.Fatal(err)
	}
	return pkix.Extension{Id: asn1.ObjectIdentifier{2, 5, 29, 17}, Critical: true, Value: value}
}

// TestNamesOfRequests: requests of Istio's agent have an empty organization, requests of ztunnel no
// subject.
func TestNamesOfRequests(t *testing.T) {
	id := parseID(t, "spiffe://cluster.local/ns/a/sa/b")
	for _, subject := range []pkix.Name{{}, {Organization: []string{""}}} {
		template := &x509.CertificateRequest{URIs: []*url.URL{id.URL()}, Subject: subject}
		r, err := parseCSR(request(t, template, nil))
		if err == nil {
			err = checkRequestNames(r, id)
		}
		if err != nil {
			t.Errorf("%v: %v", subject, err)
		}
	}
}

// TestNamesOfIssuedCertificates: a signer may set the subject, but no second name.
func TestNamesOfIssuedCertificates(t *testing.T) {
	id := parseID(t, "spiffe://cluster.local/ns/a/sa/b")
	root := pki.Authority("external")
	csr, err := parseCSR(request(t, &x509.CertificateRequest{URIs: []*url.URL{id.URL()}}, nil))
	if err != nil {
		t.Fatal(err)
	}
	r := NewRegistration(RegistrationOptions{})
	for name, tt := range map[string]struct {
		template *x509.Certificate
		good     bool
	}{
		"the identity": {&x509.Certificate{URIs: csr.URIs}, true},
		"a subject":    {&x509.Certificate{URIs: csr.URIs, Subject: pkix.Name{Organization: []string{"mesh"}}}, true},
		"other name":   {&x509.Certificate{ExtraExtensions: []pkix.Extension{withOtherName(t, id)}}, false},
	} {
		text, err := signFor(root, tt.template, csr.PublicKey)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.verifyIssued(text, csr, id, []*x509.Certificate{root.Certificate}); (err == nil) != tt.good {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRepeatedRoots: a file with a root twice is the set of its distinct roots.
func TestRepeatedRoots(t *testing.T) {
	a, b := pki.Authority("A"), pki.Authority("B")
	r := NewRegistration(RegistrationOptions{})
	_, changed := r.Roots()
	for _, step := range []struct {
		roots   []*pki.Pair
		want    int
		changes bool
	}{
		{[]*pki.Pair{a, b}, 2, true},
		{[]*pki.Pair{a, a}, 1, true},
		{[]*pki.Pair{b, a, b}, 2, true},
		{[]*pki.Pair{a, b}, 2, false},
	} {
		if err := r.SetRoots(filesOfPairs(t, a, nil, step.roots...).Roots); err != nil {
			t.Fatal(err)
		}
		notified := false
		select {
		case <-changed:
			notified = true
		default:
		}
		var list []*x509.Certificate
		if list, changed = r.Roots(); len(list) != step.want || notified != step.changes {
			t.Errorf("%d roots, changed: %v; want %d, %v", len(list), notified, step.want, step.changes)
		}
	}
}

// TestNodes: a node's proxy gets certificates for accounts that run on its node only, and other
// callers get none.
func TestNodes(t *testing.T) {
	longtest.Test(t) // the API server takes seconds to start
	c := shared.Start(t)
	client := c.Client(t)
	ns := c.Namespace(t, "node", nil)
	pod := func(name, account, node string) *corev1.Pod {
		if _, err := client.CoreV1().ServiceAccounts(ns).Create(
			t.Context(),
			&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: account}},
			metav1.CreateOptions{},
		); err != nil &&
			!apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
		p, err := client.CoreV1().Pods(ns).Create(t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: corev1.PodSpec{
				NodeName:           node,
				ServiceAccountName: account,
				Containers:         []corev1.Container{{Name: "c", Image: "i"}},
			},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	proxy := pod("proxy", "proxy", "n1")
	pod("here", "here", "n1")
	pod("there", "there", "n2")
	over := pod("over", "over", "n1")
	over.Status.Phase = corev1.PodSucceeded
	if _, err := client.CoreV1().Pods(ns).UpdateStatus(t.Context(), over, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	account := func(name string) spiffe.Account {
		return spiffe.Account{TrustDomain: "cluster.local", Namespace: ns, Name: name}
	}
	caller := func(name string, p *corev1.Pod) authenticate.Caller {
		id, err := account(name).ID()
		if err != nil {
			t.Fatal(err)
		}
		who := authenticate.Caller{ID: id, Cluster: "here"}
		if p != nil {
			who.Pod = authenticate.Pod{Namespace: ns, Name: p.Name, UID: string(p.UID)}
		}
		return who
	}
	former := proxy.DeepCopy()
	former.UID = "former"
	foreign := caller("proxy", proxy)
	foreign.Cluster = "elsewhere"
	n := NodeImpersonation{Accounts: []string{ns + "/proxy"}, ClusterClient: func(cluster string) kubernetes.Interface {
		if cluster != "here" {
			return nil
		}
		return client
	}}
	for name, tt := range map[string]struct {
		caller authenticate.Caller
		want   string
		ok     bool
	}{
		"on its node":               {caller("proxy", proxy), "here", true},
		"on another":                {caller("proxy", proxy), "there", false},
		"has ended":                 {caller("proxy", proxy), "over", false},
		"nowhere":                   {caller("proxy", proxy), "nobody", false},
		"not bound to a pod":        {caller("proxy", nil), "here", false},
		"of a former pod":           {caller("proxy", former), "here", false},
		"another account's pod":     {caller("proxy", over), "here", false},
		"not trusted":               {caller("here", proxy), "proxy", false},
		"cluster that is not known": {foreign, "here", false},
	} {
		if err := n.Authorize(t.Context(), tt.caller, account(tt.want)); (err == nil) != tt.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRootConfigMapName checks that the roots are published in a ConfigMap with another name than
// the default.
func TestRootConfigMapName(t *testing.T) {
	client := fake.NewClientset(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
	p := &published{text: "one", changed: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- RootPublisher{Client: client, Name: "roots", Roots: p.roots, Log: slog.New(slog.DiscardHandler)}.Run(ctx)
	}()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	maps := client.CoreV1().ConfigMaps("shop")
	serving.Until(t, limit, "the ConfigMap roots exists", func() bool {
		m, err := maps.Get(t.Context(), "roots", metav1.GetOptions{})
		return err == nil && m.Data[RootConfigMapKey] == "one"
	})
	p.set("two", "")
	serving.Until(t, limit, "the ConfigMap roots is updated", func() bool {
		m, err := maps.Get(t.Context(), "roots", metav1.GetOptions{})
		return err == nil && m.Data[RootConfigMapKey] == "two"
	})
	if _, err := maps.Get(t.Context(), RootConfigMap, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the ConfigMap %s exists too: %v", RootConfigMap, err)
	}
}
