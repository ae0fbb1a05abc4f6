// Package controller writes the objects and statuses that the Gateway API requires to an API
// server: it deploys Gateways, creates GatewayClasses and writes the status of objects.
//
// Inputs: the deployments and statuses that gatewayapi.Converter has computed. Outputs: requests of
// packages kube/gateway and kube/status.
//
// Invariant: each task is performed by one replica, its elected leader.
//
// Start with [Controller.Run] in controller.go.
package controller
