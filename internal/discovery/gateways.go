package discovery

import (
	"github.com/meshpilot/meshpilot/internal/ingest/registry/gatewayapi"
	"github.com/meshpilot/meshpilot/internal/ingest/source/credential"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// gatewaySecretsStream is the name under which the Secrets and ConfigMaps of Gateway API objects are
// requested, beside the names of streams.
const gatewaySecretsStream = "certificates of Gateway API objects"

// newGateways returns the converter of Gateway API objects. If gateways are deployed for Gateways,
// their addresses are those of the deployed Services.
func (s *server) newGateways() *gatewayapi.Converter {
	return gatewayapi.New(gatewayapi.Options{
		Domain: s.options.Domain, Deploys: s.options.configFromCluster(), Recovery: s.recovery,
		OnReferencesChanged: s.readGatewayCertificates(),
		OnStatusesChanged:   s.gatewayStatusesChanged, OnDeploymentsChanged: s.gatewayDeploymentsChanged,
	})
}

// readGatewayCertificates returns a function that reads the given Secrets and ConfigMaps from the
// API server: the status of a listener reports whether its certificates exist and are valid.
func (s *server) readGatewayCertificates() func([]config.Key) {
	return func(objects []config.Key) {
		if s.credentials != nil {
			s.credentials.SetWant(gatewaySecretsStream, credential.Want{Objects: objects})
		}
	}
}
