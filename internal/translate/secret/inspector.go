package secret

import (
	"crypto/x509"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
	"github.com/meshpilot/meshpilot/internal/model/mesh"
	"github.com/meshpilot/meshpilot/internal/snapshot"
)

// Inspector finds what is wrong with credentials. It remembers what it found in objects that did not change, and is for
// one goroutine. The zero Inspector is ready.
type Inspector struct {
	known map[*config.Config]verdict
}

// verdict is what is to say of one object: at any time, and of its certificates' times.
type verdict struct {
	faults []fault
	times  []validity
}

// validity is when a certificate is valid.
type validity struct {
	key, subject     string
	notBefore, until time.Time
}

// Problems gives what is wrong, at that time, with the Secrets of a snapshot that hold credentials, and with the credential
// names of Gateways and DestinationRules. Secrets that are for others are passed over. Certificates out of their time are
// given to proxies all the same, as Istio does: it is for the other side to refuse them.
func (i *Inspector) Problems(s *snapshot.Snapshot, now time.Time) []config.Problem {
	refs := referencesOf(s)
	known := make(map[*config.Config]verdict)
	var list []config.Problem
	note := func(c *config.Config, severity config.Severity, key, reason string) {
		list = append(list, config.Problem{Key: c.Key, Field: "data[" + key + "]", Reason: reason, Severity: severity, Origin: c.Origin})
	}
	for _, c := range slices.Concat(s.Configs(api.Secret), s.Configs(api.RemoteSecret), s.Configs(api.ConfigMap)) {
		if !credential(c) && !refs.to(c.Key) {
			continue
		}
		v, ok := i.known[c]
		if !ok {
			v = judge(c)
		}
		known[c] = v
		for _, f := range v.faults {
			note(c, f.severity, f.key, f.reason)
		}
		for _, t := range v.times {
			if reason := t.at(now); reason != "" {
				note(c, config.Warning, t.key, reason)
			}
		}
	}
	i.known = known
	return append(list, refs.missing(s)...)
}

// credential says that an object is meant to be a credential, whether anybody names it or not.
func credential(c *config.Config) bool {
	o, ok := c.Spec.(*corev1.Secret)
	if !ok {
		return false
	}
	whole := func(r row) bool {
		return !slices.ContainsFunc(r.needed, func(key string) bool { _, there := o.Data[key]; return !there })
	}
	return o.Type == corev1.SecretTypeTLS || slices.ContainsFunc(pairRows(), whole)
}

// judge reads an object as what it seems to hold.
func judge(c *config.Config) verdict {
	data := dataOf(c)
	begun := func(r row) bool { return r.begun(data) }
	n, _ := mesh.CredentialName(local(c.Key).Name)
	trusts := n.Trust || c.Kind == api.ConfigMap || slices.ContainsFunc(trustRows(), begun)
	pairs := c.Kind != api.ConfigMap && slices.ContainsFunc(pairRows(), begun)
	var v verdict
	if pairs || !trusts {
		p, faults := pairOf(c)
		v.add(p.chainKey, p.certificates, faults)
	}
	if trusts {
		t, faults := trustOf(c)
		v.add(t.anchorsKey, t.certificates, faults)
	}
	return v
}

func (v *verdict) add(key string, certificates []*x509.Certificate, faults []fault) {
	v.faults = append(v.faults, faults...)
	for _, c := range certificates {
		if c != nil {
			v.times = append(v.times, validity{key, c.Subject.String(), c.NotBefore, c.NotAfter})
		}
	}
}

func (v validity) at(now time.Time) string {
	switch {
	case now.After(v.until):
		return fmt.Sprintf("the certificate of %q expired on %s", v.subject, v.until.UTC().Format(time.DateTime))
	case now.Before(v.notBefore):
		return fmt.Sprintf("the certificate of %q is not valid before %s", v.subject, v.notBefore.UTC().Format(time.DateTime))
	default:
		return ""
	}
}
