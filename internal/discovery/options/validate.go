package options

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/meshpilot/meshpilot/internal/diagnostics/traffic"
	"github.com/meshpilot/meshpilot/internal/ingest/source/credential"
	"github.com/meshpilot/meshpilot/internal/xds/feed"
)

// Validate returns one error with every invalid flag or variable, sorted, or nil. It resolves the
// listening addresses and stats --configDir, but opens no port. An empty address is valid: its port
// is not opened.
func (o Options) Validate() error {
	var errs []error
	for flag, addr := range map[string]string{
		"--grpcAddr": o.GRPCAddr, "--secureGRPCAddr": o.SecureGRPCAddr, "--httpAddr": o.HTTPAddr,
		"--httpsAddr": o.HTTPSAddr, "--monitoringAddr": o.MonitoringAddr,
	} {
		if addr == "" {
			continue
		}
		if _, _, err := net.SplitHostPort(addr); err != nil {
			errs = append(errs, fmt.Errorf("%s %q: want host:port", flag, addr))
		} else if _, err := net.ResolveTCPAddr("tcp", addr); err != nil {
			errs = append(errs, fmt.Errorf("%s %q: %w", flag, addr, err))
		}
	}
	errs = append(errs, o.validateSources()...)
	for flag, d := range map[string]time.Duration{
		"--keepaliveInterval": o.Keepalive.Interval, "--keepaliveTimeout": o.Keepalive.Timeout,
		"--keepaliveMaxServerConnectionAge": o.Keepalive.MaxServerConnectionAge,
	} {
		if d <= 0 {
			errs = append(errs, fmt.Errorf("%s %v: must be positive", flag, d))
		}
	}
	if o.ShutdownDuration < 0 {
		errs = append(errs, fmt.Errorf("--shutdownDuration %v: must not be negative", o.ShutdownDuration))
	}
	if o.Push.DebounceAfter < 0 || o.Push.DebounceMax < 0 || o.Push.DebounceAfter > o.Push.DebounceMax {
		errs = append(errs, fmt.Errorf("PILOT_DEBOUNCE_AFTER %v, PILOT_DEBOUNCE_MAX %v: want 0 <= after <= max", o.Push.DebounceAfter, o.Push.DebounceMax))
	}
	if (o.TLSCertFile == "") != (o.TLSKeyFile == "") {
		errs = append(errs, errors.New("--tlsCertFile, --tlsKeyFile: one needs the other"))
	}
	errs = append(errs, o.TLS.Validate()...)
	if o.PrometheusURL != "" {
		if _, err := traffic.New(o.PrometheusURL); err != nil {
			errs = append(errs, fmt.Errorf("MESHPILOT_PROMETHEUS_URL: %w", err))
		}
	}
	if err := o.Webhooks.Validate(); err != nil {
		errs = append(errs, err)
	}
	if err := o.validateAuthority(); err != nil {
		errs = append(errs, err)
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(errs...)
}

// validateAuthority returns an error if the authority's settings are invalid. Every
// PILOT_CERT_PROVIDER is accepted if the serving certificate is in files, where the provider has no
// effect. Installations with certificates of another PKI set names of their own.
func (o Options) validateAuthority() error {
	settings := o.Authority
	if o.TLSCertFile != "" {
		settings.CertProvider = ""
	}
	return settings.Validate()
}

// validateSources returns an error for each invalid flag or variable of registries, sources,
// plain-text access, the scope of Secrets, the domain and cluster aliases, or nil.
func (o Options) validateSources() []error {
	var errs []error
	for _, r := range o.Registries {
		switch r {
		case "Kubernetes":
		case registryConsul:
			if err := o.Consul.Validate(); err != nil {
				errs = append(errs, err)
			}
		default:
			if err := o.validatePlatform(r); err != nil {
				errs = append(errs, err)
			}
		}
	}
	if o.ConfigDir != "" {
		if info, err := os.Stat(o.ConfigDir); err != nil {
			errs = append(errs, fmt.Errorf("--configDir: %w", err))
		} else if !info.IsDir() {
			errs = append(errs, fmt.Errorf("--configDir %q: is not a directory", o.ConfigDir))
		}
	}
	if len(validation.IsDNS1123Subdomain(o.Domain)) > 0 {
		errs = append(errs, fmt.Errorf("--domain %q: want a DNS name in lower case, without a final dot", o.Domain))
	}
	plainText := map[string]feed.PlainText{
		"--configPlainText":  o.ConfigPlainText,
		"--secretsPlainText": o.SecretsPlainText,
	}
	for flag, who := range plainText {
		switch who {
		case feed.PlainTextRefused, feed.PlainTextLoopback, feed.PlainTextAnyone:
		default:
			errs = append(errs, fmt.Errorf("%s %q: want %s or %s", flag, who, feed.PlainTextLoopback, feed.PlainTextAnyone))
		}
	}
	switch o.SecretsScope {
	case "", credential.Names, credential.Namespaces, credential.Cluster:
	default:
		errs = append(errs, fmt.Errorf("MESHPILOT_SECRETS_SCOPE %q: want %s, %s or %s", o.SecretsScope, credential.Names, credential.Namespaces, credential.Cluster))
	}
	return append(errs, o.validateClusterAliases()...)
}

// validateClusterAliases returns an error for each cluster alias that is malformed, that belongs to
// another cluster already, or whose cluster has an alias already. It returns nil if there is none.
func (o Options) validateClusterAliases() []error {
	var errs []error
	aliases, clusters := map[string]string{}, map[string]string{}
	for _, a := range o.ClusterAliases {
		alias, cluster, ok := strings.Cut(a, "=")
		if !ok || alias == "" || cluster == "" {
			errs = append(errs, fmt.Errorf("--clusterAliases %q: want alias=cluster", a))
		} else if other := aliases[cluster]; other != "" {
			errs = append(errs, fmt.Errorf("--clusterAliases: cluster %q has two aliases, %q and %q", cluster, other, alias))
		} else if other := clusters[alias]; other != "" {
			errs = append(errs, fmt.Errorf("--clusterAliases: %q is the alias of two clusters, %q and %q", alias, other, cluster))
		}
		aliases[cluster], clusters[alias] = alias, cluster
	}
	return errs
}
