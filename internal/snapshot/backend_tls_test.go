package snapshot

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/config"
)

// TestUsersSettingsPrevailOverBackendPolicies merges a BackendTLSPolicy for all ports, another one
// for port 81, and a retry budget with DestinationRules.
func TestUsersSettingsPrevailOverBackendPolicies(t *testing.T) {
	disable := &networking.ClientTLSSettings{Mode: networking.ClientTLSSettings_DISABLE}
	ofPolicy := func(host string) *networking.ClientTLSSettings {
		return &networking.ClientTLSSettings{
			Mode: networking.ClientTLSSettings_SIMPLE, Sni: host, CredentialName: "configmap://ca",
		}
	}
	ofPort := func(number uint32, tls *networking.ClientTLSSettings) *networking.TrafficPolicy_PortTrafficPolicy {
		return &networking.TrafficPolicy_PortTrafficPolicy{Port: &networking.PortSelector{Number: number}, Tls: tls}
	}
	own := &networking.TrafficPolicy_RetryBudget{Percent: wrapperspb.Double(50)}
	budget := &networking.TrafficPolicy_RetryBudget{
		Percent: wrapperspb.Double(20), BudgetInterval: durationpb.New(time.Second), MinRetryConcurrency: 3,
	}
	for _, tt := range []struct {
		name       string
		rule, want *networking.TrafficPolicy
	}{
		{
			name: "no rule",
			want: &networking.TrafficPolicy{
				Tls: ofPolicy("all"), RetryBudget: budget,
				PortLevelSettings: []*networking.TrafficPolicy_PortTrafficPolicy{ofPort(81, ofPolicy("port"))},
			},
		},
		{
			name: "a rule with other settings",
			rule: &networking.TrafficPolicy{
				PortLevelSettings: []*networking.TrafficPolicy_PortTrafficPolicy{ofPort(80, nil)},
			},
			want: &networking.TrafficPolicy{
				Tls: ofPolicy("all"), RetryBudget: budget,
				PortLevelSettings: []*networking.TrafficPolicy_PortTrafficPolicy{
					ofPort(80, ofPolicy("all")), ofPort(81, ofPolicy("port")),
				},
			},
		},
		{
			name: "a rule with TLS and a budget",
			rule: &networking.TrafficPolicy{
				Tls: disable, RetryBudget: own,
				PortLevelSettings: []*networking.TrafficPolicy_PortTrafficPolicy{ofPort(80, nil), ofPort(81, disable)},
			},
			want: &networking.TrafficPolicy{
				Tls: disable, RetryBudget: own,
				PortLevelSettings: []*networking.TrafficPolicy_PortTrafficPolicy{
					ofPort(80, ofPolicy("all")), ofPort(81, disable),
				},
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			policies := object(t, api.DestinationRule, "prod", "policies", 1, &networking.DestinationRule{Host: reviews})
			policies.Extension = &config.Extension{
				BackendTLS: []config.BackendTLS{
					{CredentialName: "configmap://ca", ServerName: "all"},
					{Port: 81, CredentialName: "configmap://ca", ServerName: "port"},
				},
				RetryBudget: &config.RetryBudget{Percent: 20, Interval: time.Second, MinConcurrency: 3},
			}
			parts := []*config.Config{policies}
			if tt.rule != nil {
				spec := &networking.DestinationRule{Host: reviews, TrafficPolicy: tt.rule}
				parts = append(parts, object(t, api.DestinationRule, "prod", "own", 2, spec))
			}
			if diff := cmp.Diff(tt.want, mergedSpec(parts).GetTrafficPolicy(), protocmp.Transform()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
