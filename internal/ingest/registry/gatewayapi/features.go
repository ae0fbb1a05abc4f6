package gatewayapi

import "sigs.k8s.io/gateway-api/pkg/features"

// unsupportedFeatures are the features of the Gateway API that are not supported: none.
var unsupportedFeatures []features.FeatureName //nolint:gochecknoglobals // constant
