package discovery

import (
	"context"
	"time"

	"github.com/meshpilot/meshpilot/internal/ingest/registry/gatewayapi"
	"github.com/meshpilot/meshpilot/internal/ingest/registry/gatewayapi/controller"
	"github.com/meshpilot/meshpilot/internal/ingest/source/credential"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// gatewaySecretsStream is the name under which the Secrets and ConfigMaps of Gateway API objects
// are requested, beside the names of streams.
const gatewaySecretsStream = "certificates of Gateway API objects"

// newGateways returns the converter of Gateway API objects. If config objects are read from an API
// server, the addresses of Gateways are those of the Services deployed for them.
func (s *server) newGateways() *gatewayapi.Converter {
	o := s.options.GatewayConverter(s.recovery)
	o.Now, o.OnReferencesChanged = time.Now, s.readGatewayCertificates
	o.OnStatusesChanged = func([]config.Key) { s.notifyStatus() }
	o.OnDeploymentsChanged = s.notifyGatewayDeployments
	return gatewayapi.New(o)
}

// readGatewayCertificates requests the given Secrets and ConfigMaps from the API server, in place
// of the objects of the last call: the status of a listener reports whether its certificates exist
// and are valid. It does nothing without an API server.
func (s *server) readGatewayCertificates(objects []config.Key) {
	if s.credentials != nil {
		s.credentials.SetWant(gatewaySecretsStream, credential.Want{Objects: objects})
	}
}

// notifyGatewayDeployments makes the controller, if there is one, deploy the changed Gateways
// again.
func (s *server) notifyGatewayDeployments(changed []config.Key) {
	if s.gatewayController != nil {
		s.gatewayController.NotifyDeployments(changed)
	}
}

// newGatewayController sets s.gatewayController, the controller for the Gateway API, unless that is
// disabled or config objects are not read from an API server. It returns the error of
// controller.New.
func (s *server) newGatewayController() (err error) {
	o := s.options
	if s.client == nil || !o.ConfigFromCluster() || !o.GatewayAPI.Enabled {
		return nil
	}
	s.gatewayController, err = controller.New(controller.Options{
		WriteStatus: o.GatewayAPI.WriteStatus, Deploy: o.GatewayAPI.Deploy, CreateClasses: o.GatewayAPI.CreateClasses,
		CopyMetadata: o.GatewayAPI.CopyMetadata, Namespace: o.Namespace, Revision: o.Revision, Client: s.client,
		Elections: s.elections, Converter: s.gateways, Status: s.status, Recovery: s.recovery, Log: s.logs.Scope("gateway"),
	})
	return err
}

// runGatewayController runs the controller for the Gateway API until ctx ends. It returns nil at
// once if there is none, and otherwise the error of an election, or nil after the end of ctx.
func (s *server) runGatewayController(ctx context.Context) error {
	if s.gatewayController == nil {
		return nil
	}
	return s.gatewayController.Run(ctx)
}
