package publication

// Seen is what the watch shows.
var Seen = (*Publisher).seen

// MaxGrants is maxGrants.
const MaxGrants = maxGrants
