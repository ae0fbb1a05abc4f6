// Package endpointpicker runs an endpoint picker of InferencePools for tests: an ext_proc server that
// chooses the endpoint of each request, with the protocol of the Gateway API Inference Extension.
//
// In: the endpoint that the request's header x-pick names, else the one that the test has set; none
// leaves the choice to the gateway. Out: the choice in a header and in the metadata, and on each
// response the header x-served with the endpoint that has answered, as the gateway reports it.
//
// Start with [Start].
package endpointpicker
