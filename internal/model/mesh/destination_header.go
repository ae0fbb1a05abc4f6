package mesh

// DestinationHeader contains the address that a captured request was sent to. The proxy of the
// caller sets it where routes depend on that address, because Envoy's route tables match only
// headers, and removes it before it forwards the request.
const DestinationHeader = "x-meshpilot-destination"
