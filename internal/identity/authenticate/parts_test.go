package authenticate

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/meshpilot/meshpilot/test/support/pki"
)

func domains() []string { return []string{"cluster.local", "old.local"} }

// headers makes a request of pairs of headers.
func headers(pairs ...string) Request {
	return Request{Header: func(name string) (list []string) {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				list = append(list, pairs[i+1])
			}
		}
		return list
	}}
}

func bearing(token string) Request { return headers("authorization", "Bearer "+token) }

// shows makes a request over TLS of a client that shows a certificate.
func shows(c *x509.Certificate) Request {
	r := headers()
	r.TLS = &tls.ConnectionState{}
	if c != nil {
		r.TLS.VerifiedChains = [][]*x509.Certificate{{c}}
	}
	return r
}

func TestCertificates(t *testing.T) {
	a := pki.Authority("root")
	of := func(uris ...string) *x509.Certificate {
		c := new(x509.Certificate)
		for _, u := range uris {
			parsed, err := url.Parse(u)
			if err != nil {
				t.Fatal(err)
			}
			c.URIs = append(c.URIs, parsed)
		}
		return a.Issue(c).Certificate
	}
	unverified := shows(nil)
	unverified.TLS.PeerCertificates = []*x509.Certificate{of("spiffe://cluster.local/ns/a/sa/b")}
	for name, tt := range map[string]struct {
		r    Request
		want string // "none": no credentials; "": wrong
	}{
		"ours":             {shows(of("spiffe://cluster.local/ns/a/sa/b")), "spiffe://cluster.local/ns/a/sa/b"},
		"an alias":         {shows(of("spiffe://old.local/ns/a/sa/b")), "spiffe://old.local/ns/a/sa/b"},
		"plain text":       {headers(), "none"},
		"none shown":       {shows(nil), "none"},
		"not verified":     {unverified, "none"},
		"foreign":          {shows(of("spiffe://foreign/ns/a/sa/b")), ""},
		"begins like ours": {shows(of("spiffe://cluster.local.evil/ns/a/sa/b")), ""},
		"two":              {shows(of("spiffe://cluster.local/ns/a/sa/b", "spiffe://cluster.local/ns/a/sa/c")), ""},
		"no ID":            {shows(of()), ""},
		"the authority's":  {shows(a.Certificate), ""},
	} {
		c, err := ClientCertificate{domains}.Authenticate(t.Context(), tt.r)
		check(t, name, c, err, tt.want)
	}
}

func check(t *testing.T, name string, c Caller, err error, want string) {
	t.Helper()
	switch want {
	case "none":
		if !errors.Is(err, ErrNoCredentials) {
			t.Errorf("%s: %v, %v; want no credentials", name, c.ID, err)
		}
	case "":
		if err == nil || errors.Is(err, ErrNoCredentials) || !c.ID.IsZero() {
			t.Errorf("%s: %v, %v; want an error", name, c.ID, err)
		}
	default:
		if err != nil || c.ID.String() != want {
			t.Errorf("%s: %v, %v; want %s", name, c.ID, err, want)
		}
	}
}

// TestForwardedCertificates: without trusted networks the header is ignored from every peer.
// T-XFCC.
func TestForwardedCertificates(t *testing.T) {
	const good = `By=spiffe://cluster.local/ns/istio-system/sa/istiod;Hash=00;Subject="CN=a,O=\"b\";c";URI=spiffe://cluster.local/ns/a/sa/b`
	from := func(peer, header string) Request {
		r := headers("x-forwarded-client-cert", header)
		r.Peer = netip.MustParseAddr(peer)
		return r
	}
	for _, peer := range []string{"127.0.0.1", "::1", "10.0.0.7", "169.254.1.1"} {
		for _, trusted := range [][]netip.Prefix{nil, {}, {netip.Prefix{}}} {
			c, err := ForwardedCertificate{domains, trusted}.Authenticate(t.Context(), from(peer, good))
			check(t, "nobody trusted, from "+peer, c, err, "none")
		}
	}
	f := ForwardedCertificate{
		domains,
		[]netip.Prefix{netip.MustParsePrefix("10.0.0.0/24"), netip.MustParsePrefix("fd00::/64")},
	}
	for name, tt := range map[string]struct {
		r    Request
		want string
	}{
		"trusted":               {from("10.0.0.7", good), "spiffe://cluster.local/ns/a/sa/b"},
		"trusted, IPv6":         {from("fd00::7", good), "spiffe://cluster.local/ns/a/sa/b"},
		"not trusted":           {from("10.0.1.7", good), "none"},
		"this machine":          {from("127.0.0.1", good), "none"},
		"no peer":               {headers("x-forwarded-client-cert", good), "none"},
		"no header":             {func() Request { r := headers(); r.Peer = netip.MustParseAddr("10.0.0.7"); return r }(), "none"},
		"the last hop is used":  {from("10.0.0.7", "URI=spiffe://cluster.local/ns/istio-system/sa/istiod,"+good), "spiffe://cluster.local/ns/a/sa/b"},
		"no URI in the last":    {from("10.0.0.7", good+",Hash=00"), ""},
		"two URIs":              {from("10.0.0.7", good+";URI=spiffe://cluster.local/ns/a/sa/c"), ""},
		"in quotes":             {from("10.0.0.7", `uri="spiffe://cluster.local/ns/a/sa/b"`), "spiffe://cluster.local/ns/a/sa/b"},
		"smuggled in a subject": {from("10.0.0.7", `Subject=",URI=spiffe://cluster.local/ns/istio-system/sa/istiod";URI=spiffe://cluster.local/ns/a/sa/b`), "spiffe://cluster.local/ns/a/sa/b"},
		"foreign":               {from("10.0.0.7", "URI=spiffe://foreign/ns/a/sa/b"), ""},
		"trust domain alone":    {from("10.0.0.7", "URI=spiffe://cluster.local"), ""},
		"DNS only":              {from("10.0.0.7", "DNS=istiod.istio-system.svc"), ""},
		"empty":                 {from("10.0.0.7", ""), ""},
		"garbage":               {from("10.0.0.7", "garbage"), ""},
		"open quotes":           {from("10.0.0.7", `URI="spiffe://cluster.local/ns/a/sa/b`), ""},
		"behind quotes":         {from("10.0.0.7", `URI="spiffe://cluster.local/ns/a/sa/b"c`), ""},
		"huge":                  {from("10.0.0.7", strings.Repeat("a=b,", 20_000)+good), ""},
	} {
		c, err := f.Authenticate(t.Context(), tt.r)
		check(t, name, c, err, tt.want)
	}
}

func FuzzForwarded(f *testing.F) {
	f.Add(`By=a;Hash=b;Subject="c\"d";URI=spiffe://cluster.local/ns/a/sa/b,URI=x`)
	f.Fuzz(func(t *testing.T, header string) {
		elements, err := parseXFCC(header)
		if err != nil {
			return
		}
		// Encoded in the strictest form and parsed again, it is unchanged.
		var again []string
		for _, e := range elements {
			var pairs []string
			for k, values := range e {
				for _, v := range values {
					pairs = append(pairs, k+`="`+strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(v)+`"`)
				}
			}
			again = append(again, strings.Join(pairs, ";"))
		}
		if len(strings.Join(again, ",")) > maxXFCCBytes {
			return
		}
		second, err := parseXFCC(strings.Join(again, ","))
		if err != nil || len(second) != len(elements) {
			t.Fatalf("%q is read as %v, and that as %v, %v", header, elements, second, err)
		}
		for i, e := range elements {
			for k, v := range e {
				if strings.Join(second[i][k], "\x00") != strings.Join(v, "\x00") {
					t.Fatalf("%q is read as %v, and that as %v", header, elements, second)
				}
			}
		}
	})
}

func TestBearers(t *testing.T) {
	for name, tt := range map[string]struct {
		r    Request
		want string
		none bool
	}{
		"a token":         {bearing("x"), "x", false},
		"another case":    {headers("authorization", "bearer x"), "x", false},
		"none":            {headers(), "", true},
		"empty":           {bearing(""), "", true},
		"basic":           {headers("authorization", "Basic x"), "", true},
		"basic besides":   {headers("authorization", "Basic x", "authorization", "Bearer y"), "y", false},
		"two":             {headers("authorization", "Bearer x", "authorization", "Bearer y"), "", false},
		"17 KB":           {bearing(strings.Repeat("a", 17<<10)), "", false},
		"without a space": {headers("authorization", "Bearerx"), "", true},
	} {
		got, err := bearerToken(tt.r)
		if got != tt.want || errors.Is(err, ErrNoCredentials) != tt.none || (err == nil) != (tt.want != "") {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}
