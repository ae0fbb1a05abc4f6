package readapi

import (
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
)

// certificate returns a certificate with a lifetime of 100 days that ends after a number of days.
func certificate(use CertificateUse, name, serial string, days int) Certificate {
	until := time.Now().Add(time.Duration(days) * 24 * time.Hour)
	return Certificate{Use: use, Name: name, Serial: serial, NotBefore: until.Add(-100 * 24 * time.Hour), NotAfter: until}
}

// list returns the certificates in one line each.
func (x *CertificateList) list() string {
	var lines []string
	for _, c := range x.Certificates {
		lines = append(lines, fmt.Sprint(c.Use, " ", c.Name, " ", c.State, " ", len(c.From)))
	}
	return strings.Join(lines, "\n")
}

// TestCertificates shows states and the order, and what callers of namespaces see.
func TestCertificates(t *testing.T) {
	a := newAPI(t)
	if x := readView[CertificateList](t, a, "", "/certificates"); x.Certificates == nil || len(x.Certificates) != 0 {
		t.Errorf("without certificates: %+v", x)
	}
	gateway := certificate(GatewayCertificate, "shop.example", "5", -1)
	gateway.Object, gateway.Namespace = &Source{Kind: "Secret", Namespace: "shop", Name: "cert"}, "shop"
	gateway.From = []Source{{Kind: "Gateway", Namespace: "shop", Name: "a"}, {Kind: "Gateway", Namespace: "bank", Name: "b"}}
	workload := certificate(WorkloadCertificate, "spiffe://cluster.local/ns/bank/sa/pay", "6", 5)
	workload.Namespace = "bank"
	a.Certificates = func() []Certificate {
		return []Certificate{
			workload, gateway, certificate(RootCertificate, "late", "1", 90), certificate(RootCertificate, "early", "2", 15),
			certificate(SigningCertificate, "future", "3", 101),
		}
	}
	const roots = "root early valid 0\nroot late valid 0\nsigning future not yet valid 0\n"
	for caller, want := range map[string]string{
		"":     roots + "gateway shop.example expired 2\nworkload spiffe://cluster.local/ns/bank/sa/pay expiring 0",
		"shop": roots + "gateway shop.example expired 1",
		"bank": roots + "workload spiffe://cluster.local/ns/bank/sa/pay expiring 0",
	} {
		if x := readView[CertificateList](t, a, caller, "/certificates"); x.list() != want {
			t.Errorf("%q sees\n%s\nwant\n%s", caller, x.list(), want)
		}
	}
}

// TestCertificatesByName reads those of an identity, and those in a Secret.
func TestCertificatesByName(t *testing.T) {
	a := newAPI(t)
	gateway := certificate(GatewayCertificate, "shop.example", "5", 90)
	gateway.Object, gateway.Namespace = &Source{Kind: "Secret", Namespace: "shop", Name: "cert"}, "shop"
	a.Certificates = func() []Certificate {
		return []Certificate{gateway, certificate(WorkloadCertificate, "spiffe://a", "1", 90), certificate(WorkloadCertificate, "spiffe://b", "2", 90)}
	}
	for query, want := range map[string]string{
		"name=spiffe://a":                "workload spiffe://a valid 0",
		"name=spiffe://b&name=shop/cert": "gateway shop.example valid 0\nworkload spiffe://b valid 0",
		"name=cert":                      "",
	} {
		if x := readView[CertificateList](t, a, "", "/certificates?"+query); x.list() != want {
			t.Errorf("%s: %s, want %s", query, x.list(), want)
		}
	}
}

// TestCertificatesOfPeers merges the answers of two replicas: the same root is listed once, each
// replica's own certificate, and of a workload the last to expire.
func TestCertificatesOfPeers(t *testing.T) {
	replica := func(name, serial string, days int) *API {
		a := newAPI(t)
		a.Replica = name
		a.Certificates = func() []Certificate {
			return []Certificate{
				certificate(RootCertificate, "root", "1", 50), certificate(ServingCertificate, "istiod", serial, 40),
				certificate(WorkloadCertificate, "web", serial, days),
			}
		}
		return a
	}
	server := httptest.NewServer(replica("istiod-2", "b", 60))
	t.Cleanup(server.Close)
	a := replica("istiod-1", "a", 20)
	a.Peers.Addresses = []string{host(server)}
	x := readView[CertificateList](t, a, "", "/certificates")
	if want := "root root valid 0\nserving istiod valid 0\nserving istiod valid 0\nworkload web valid 0"; x.list() != want {
		t.Fatalf("got\n%s\nwant\n%s", x.list(), want)
	}
	if last := x.Certificates[3]; last.Replica != "istiod-2" || x.Certificates[0].Replica != "" {
		t.Errorf("the workload's certificate is of %q, the root of %q", last.Replica, x.Certificates[0].Replica)
	}
	many := CertificateList{Certificates: slices.Repeat([]Certificate{certificate(RootCertificate, "r", "1", 1)}, maxCertificates+2)}
	for i := range many.Certificates {
		many.Certificates[i].Serial = fmt.Sprint(i)
	}
	if many.Merge(); len(many.Certificates) != maxCertificates || many.Omitted != 2 {
		t.Errorf("%d certificates, %d omitted", len(many.Certificates), many.Omitted)
	}
}
