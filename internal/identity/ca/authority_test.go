package ca

import (
	"bytes"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"math"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/meshpilot/meshpilot/test/support/pki"
)

func TestLifetimes(t *testing.T) {
	id := parseID(t, "spiffe://cluster.local/ns/a/sa/b")
	now := time.Now().Truncate(time.Second)
	root := selfSigned(t)
	for _, tt := range []struct {
		name  string
		asked time.Duration
		want  time.Duration // 0: refused
	}{
		{"none", 0, 24 * time.Hour},
		{"negative", -time.Hour, 24 * time.Hour},
		{"the least there is", math.MinInt64, 24 * time.Hour},
		{"an hour", time.Hour, time.Hour},
		{"the most", 90 * 24 * time.Hour, 90 * 24 * time.Hour},
		{"more", 90*24*time.Hour + 1, 0},
		{"the most there is", math.MaxInt64, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := authority(t, root, AuthorityOptions{Now: func() time.Time { return now }})
			i, err := a.Issue(
				t.Context(),
				Request{ID: id, CSR: request(t, &x509.CertificateRequest{}, nil), Lifetime: tt.asked},
			)
			if tt.want == 0 {
				var r *IssueError
				if !errors.As(err, &r) || r.Cause != CauseTTL || r.Code != codes.InvalidArgument {
					t.Errorf("the error is %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			leaf := i.Chain[0]
			if !leaf.NotAfter.Equal(now.Add(tt.want)) || !leaf.NotBefore.Equal(now.Add(-2*time.Minute)) {
				t.Errorf("it is good from %v to %v at %v", leaf.NotBefore, leaf.NotAfter, now)
			}
		})
	}
}

func TestSeconds(t *testing.T) {
	for n, want := range map[int64]time.Duration{
		0: 0, -1: 0, math.MinInt64: 0, 1: time.Second, math.MaxInt64 / int64(time.Second): time.Duration(math.MaxInt64).Truncate(time.Second),
		math.MaxInt64/int64(time.Second) + 1: -1, math.MaxInt64: -1, 1 << 55: -1,
	} {
		if d, err := parseLifetime(n); (err != nil) != (want < 0) || err == nil && d != want {
			t.Errorf("%d seconds are %v, %v", n, d, err)
		}
	}
}

// TestLeavesEndWithTheirChain lets each certificate of a chain in turn expire first.
func TestLeavesEndWithTheirChain(t *testing.T) {
	id := parseID(t, "spiffe://cluster.local/ns/a/sa/b")
	soon, late := time.Now().Add(time.Hour).Truncate(time.Second), time.Now().Add(48*time.Hour).Truncate(time.Second)
	for name, ends := range map[string][3]time.Time{
		"the root": {soon, late, late}, "between": {late, soon, late}, "what signs": {late, late, soon},
	} {
		t.Run(name, func(t *testing.T) {
			root := pki.SelfSigned(&x509.Certificate{IsCA: true, NotAfter: ends[0]})
			between := intermediate(root, &x509.Certificate{NotAfter: ends[1]})
			signing := intermediate(between, &x509.Certificate{NotAfter: ends[2]})
			a := authority(t, filesOfPairs(t, signing, []*pki.Pair{between, root}, root), AuthorityOptions{})
			i, err := a.Issue(t.Context(), Request{ID: id, CSR: request(t, &x509.CertificateRequest{}, nil)})
			if err != nil {
				t.Fatal(err)
			}
			lint(t, i, id, time.Now())
			if !i.Chain[0].NotAfter.Equal(soon) {
				t.Errorf("it ends at %v, want %v", i.Chain[0].NotAfter, soon)
			}
			if len(i.Chain) != 3 || len(i.Roots) != 1 {
				t.Errorf("%d certificates and %d roots", len(i.Chain), len(i.Roots))
			}
		})
	}
	t.Run("all has ended", func(t *testing.T) {
		now := time.Now()
		a := NewAuthority(AuthorityOptions{Now: func() time.Time { return now }})
		if _, err := a.ReplaceMaterial(selfSigned(t)); err != nil {
			t.Fatal(err)
		}
		now = now.Add(11 * 365 * 24 * time.Hour)
		_, err := a.Issue(t.Context(), Request{ID: id, CSR: request(t, &x509.CertificateRequest{}, nil)})
		var r *IssueError
		if !errors.As(err, &r) || r.Cause != CauseNotReady || r.Code != codes.Unavailable {
			t.Errorf("the error is %v", err)
		}
	})
}

// TestMaterial parses the files that operators provide: valid in any order, and refused if
// verifiers would reject the certificates.
func TestMaterial(t *testing.T) {
	root, other := pki.Authority("root"), pki.Authority("other")
	between := intermediate(root, &x509.Certificate{})
	signing := intermediate(between, &x509.Certificate{})
	leaf := root.Issue(&x509.Certificate{})
	ended := pki.SelfSigned(
		&x509.Certificate{IsCA: true, NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(-time.Hour)},
	)
	early := pki.SelfSigned(&x509.Certificate{IsCA: true, NotBefore: time.Now().Add(time.Hour)})
	crossed := root.IssueTo(other.Key, &x509.Certificate{Subject: other.Certificate.Subject, IsCA: true})
	noSign := pki.SelfSigned(&x509.Certificate{IsCA: true, KeyUsage: x509.KeyUsageCRLSign})
	lenient := pki.SelfSigned(&x509.Certificate{ // as the samples of Istio: key usage is not critical
		Subject: pkix.Name{CommonName: "lenient"}, IsCA: true,
		ExtraExtensions: []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 15}, Value: []byte{3, 2, 2, 4}}},
	})
	all := func(p ...*pki.Pair) []*pki.Pair { return p }
	mixed := filesOfPairs(t, signing, all(between), root)
	mixed.Key = other.KeyPEM()
	long := filesOfPairs(t, signing, nil, root) // as cert-manager writes tls.crt
	long.Certificate = append(long.Certificate, between.CertificatePEM()...)
	commented := filesOfPairs(t, signing, all(between), root)
	commented.Chain = append([]byte("# our chain\n"), commented.Chain...)
	half := filesOfPairs(t, signing, all(between), root)
	half.Roots = append(half.Roots, half.Roots[:100]...)
	revoking := func(lists string) Files {
		f := filesOfPairs(t, root, nil, root)
		f.RevocationLists = []byte(lists)
		return f
	}
	list := string(root.Revoke(leaf.Certificate.SerialNumber))
	for name, tt := range map[string]struct {
		files Files
		above int // number of certificates above a leaf; -1: refused
	}{
		"a list of what is revoked":    {revoking(list), 0},
		"two lists":                    {revoking(list + "\n" + string(other.Revoke())), 0},
		"half of a list":               {revoking(list[:len(list)/2]), -1},
		"half of a list before a list": {revoking(list[:len(list)/2] + "\n" + list), -1},
		"a list, and more":             {revoking(list + "more"), -1},
		"a certificate as list":        {revoking(string(leaf.CertificatePEM())), -1},
		"a root":                       {filesOfPairs(t, root, nil, root), 0},
		"key usage is not critical":    {filesOfPairs(t, lenient, nil, lenient), 0},
		"a root, without its file":     {filesOfPairs(t, root, nil), 0},
		"a root, and its chain":        {filesOfPairs(t, root, all(root), root), 0},
		"in order":                     {filesOfPairs(t, signing, all(signing, between, root), root), 2},
		"in another order":             {filesOfPairs(t, signing, all(root, between, signing), root), 2},
		"the least":                    {filesOfPairs(t, signing, all(between), root), 2},
		"chain behind the certificate": {long, 2},
		"comments":                     {commented, 2},
		"several roots":                {filesOfPairs(t, signing, all(between), other, root, other), 2},
		"a former root too":            {filesOfPairs(t, root, nil, ended, root), 0},
		"signed crosswise":             {filesOfPairs(t, crossed, nil, root, other), 1},
		"nothing":                      {Files{}, -1},
		"another's key":                {mixed, -1},
		"no way to a root":             {filesOfPairs(t, signing, nil, root), -1},
		"way to another root":          {filesOfPairs(t, signing, all(between), other), -1},
		"no root":                      {filesOfPairs(t, signing, all(between)), -1},
		"a leaf":                       {filesOfPairs(t, leaf, nil, root), -1},
		"a leaf among the roots":       {filesOfPairs(t, root, nil, root, leaf), -1},
		"no right to sign":             {filesOfPairs(t, noSign, nil, noSign), -1},
		"has ended":                    {filesOfPairs(t, ended, nil, ended), -1},
		"has not begun":                {filesOfPairs(t, early, nil, early), -1},
		"half a root":                  {half, -1},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := tt.files.Parse(time.Now())
			if (err != nil) != (tt.above < 0) || err == nil && len(m.Intermediates) != tt.above {
				t.Fatalf("got %+v, %v; want %d certificates above the leaf", m, err, tt.above)
			}
			if err != nil {
				return
			}
			id := parseID(t, "spiffe://cluster.local/ns/a/sa/b")
			i, err := authority(t, tt.files, AuthorityOptions{}).Issue(
				t.Context(),
				Request{ID: id, CSR: request(t, &x509.CertificateRequest{}, nil)},
			)
			if err != nil {
				t.Fatal(err)
			}
			lint(t, i, id, time.Now())
		})
	}
}

// TestBadMaterialChangesNothing: the last valid material stays in use, and no change is signaled.
func TestBadMaterialChangesNothing(t *testing.T) {
	f := selfSigned(t)
	a := authority(t, f, AuthorityOptions{})
	m, changed := a.Material()
	bad := selfSigned(t)
	bad.Key = f.Key
	if news, err := a.ReplaceMaterial(bad); err == nil || news {
		t.Error("a certificate with the key of another is used")
	}
	if news, err := a.ReplaceMaterial(f); err != nil || news {
		t.Errorf("the same again is news: %v, %v", news, err)
	}
	reordered := f
	reordered.Roots = append(bytes.Clone(f.Roots), f.Roots...)
	if news, err := a.ReplaceMaterial(reordered); err != nil || news {
		t.Errorf("the same root twice is news: %v, %v", news, err)
	}
	select {
	case <-changed:
		t.Error("a change was reported")
	default:
	}
	if now, _ := a.Material(); now != m {
		t.Error("it is another material")
	}
	if news, err := a.ReplaceMaterial(selfSigned(t)); err != nil || !news {
		t.Errorf("another root is no news: %v", err)
	}
	<-changed
}

// TestRenewalKeepsTheKey: clients that trust the old root accept certificates signed after its
// renewal, and the reverse.
func TestRenewalKeepsTheKey(t *testing.T) {
	id := parseID(t, "spiffe://cluster.local/ns/a/sa/b")
	how := SelfSigned{TrustDomain: "cluster.local", Lifetime: 48 * time.Hour}
	f, err := how.NewRoot(rand.Reader, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	a := authority(t, f, AuthorityOptions{})
	issue := func() Issued {
		i, err := a.Issue(t.Context(), Request{ID: id, CSR: request(t, &x509.CertificateRequest{}, nil)})
		if err != nil {
			t.Fatal(err)
		}
		return i
	}
	before := issue()
	m, _ := a.Material()
	how.Lifetime = 96 * time.Hour
	next, err := how.RenewRoot(rand.Reader, time.Now(), m)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.ReplaceMaterial(next); err != nil {
		t.Fatal(err)
	}
	after := issue()
	if after.Roots[0].Equal(before.Roots[0]) || !after.Roots[0].NotAfter.After(before.Roots[0].NotAfter) {
		t.Error("the root is the same")
	}
	lint(t, Issued{Chain: before.Chain, Roots: after.Roots}, id, time.Now())
	lint(t, Issued{Chain: after.Chain, Roots: before.Roots}, id, time.Now())
}

// TestManyAtOnce signs while the material changes.
func TestManyAtOnce(t *testing.T) {
	id := parseID(t, "spiffe://cluster.local/ns/a/sa/b")
	files := []Files{selfSigned(t), selfSigned(t)}
	a := authority(t, files[0], AuthorityOptions{})
	csr := request(t, &x509.CertificateRequest{}, nil)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 20 {
				i, err := a.Issue(t.Context(), Request{ID: id, CSR: csr})
				if err != nil {
					t.Error(err)
					return
				}
				lint(t, i, id, time.Now())
			}
		})
	}
	for n := range 50 {
		if _, err := a.ReplaceMaterial(files[n%2]); err != nil {
			t.Error(err)
		}
	}
	all.Wait()
}
