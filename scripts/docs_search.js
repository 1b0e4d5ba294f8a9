// Leave short words out of the documentation's search. Material appends a wildcard to each word, so
// "delete a run" would search for all words that begin with "a", and rank "Architecture" first.
const SHORT = /^(a|an|and|are|at|by|can|do|does|for|i|in|is|it|my|of|on|or|the|to|with)$/i;
const QUERY = 2; // Material's type of messages that contain a query
const { postMessage } = Worker.prototype;

Worker.prototype.postMessage = function (message, ...rest) {
  if (message?.type === QUERY && typeof message.data === "string") {
    const words = message.data.split(/\s+/).filter((word) => word && !SHORT.test(word));
    if (words.length) message = { ...message, data: words.join(" ") };
  }
  return postMessage.call(this, message, ...rest);
};
