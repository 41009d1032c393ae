"""Short answers, part two: embeddings, pre-training, preferences, many languages, parallel training."""

from headway.learn.exercise import Exercise
from headway.learn.tracks.questions import question

EXERCISES: list[Exercise] = [
    question(
        "embed.negative_sampling",
        "negative sampling",
        "What is negative sampling, and why is it used in training word vectors?",
        """The softmax over all words needs a product with every output vector for each pair. Instead, the true pair
        is told apart from a few pairs with words drawn at random, by a sigmoid each: a handful of products and
        updates instead of the whole vocabulary. Frequent words are drawn more often (counts to the power 3/4).""",
        "the softmax over the whole vocabulary is expensive",
        "true pairs are told apart from pairs with random words",
        "only a few output vectors are computed and changed",
    ),
    question(
        "embed.fasttext",
        "FastText's objective",
        "How does FastText change skip-gram, and which words gain from it?",
        """The objective stays that of skip-gram with negative sampling, but the input vector of a word is the sum
        (or mean) of the vectors of its character n-grams and of the word itself. Rare words share n-grams with
        frequent ones, and words never seen have a vector, too; languages with many forms of each word gain most.""",
        "a word's vector is the sum of those of its n-grams",
        "the objective is that of skip-gram",
        "rare and unseen words, or rich morphology, gain",
    ),
    question(
        "embed.contextual",
        "cosine similarity and contextual vectors",
        "Why is cosine similarity used for word vectors, and why may it mislead with contextual ones, such as BERT's?",
        """It compares directions and ignores lengths, which depend on frequency. Contextual vectors are
        anisotropic: they lie in a narrow cone, a few dimensions dominate, and any two words have a high cosine. So
        differences are small and a value of 0.8 may mean nothing; subtract the mean or compare ranks.""",
        "it ignores lengths, which depend on frequency",
        "contextual vectors lie close together (anisotropy, a few large dimensions)",
        "high values between unrelated words; centring or ranks help",
    ),
    question(
        "embed.homonyms",
        "homonyms",
        "What happens to a homonym such as 'bank' in static word vectors, and in contextual ones?",
        """Static vectors have one for each form: it lies between the senses, nearer to the more frequent one, and
        its neighbours are mixed. Contextual vectors are computed from the sentence, so that each occurrence has its
        own and the senses form clusters (headway senses shows them).""",
        "static: one vector for all senses, a mixture",
        "the frequent sense dominates",
        "contextual: each occurrence has its own vector, senses form clusters",
    ),
    question(
        "pretrain.bert_t5",
        "what BERT and T5 are trained on",
        """Describe the two objectives of BERT and that of T5. What do they give that language modelling does not?""",
        """BERT: masked tokens are predicted from both sides (15 %, of which 80 % become [MASK], 10 % a random
        token, 10 % stay), and whether the second sentence follows the first. T5: spans are replaced by sentinels,
        and the decoder writes the missing spans. Words are seen with their right context, too; T5 learns to
        generate, and BERT's second objective is about pairs of sentences.""",
        "BERT: masked tokens",
        "BERT: next sentence prediction",
        "T5: spans are replaced, and written by the decoder",
        "context from both sides",
    ),
    question(
        "pretrain.few_or_many",
        "fine-tuning or in-context learning",
        "Fine-tuning or in-context learning: which with few labelled examples, which with many, and why?",
        """With few, in-context learning: nothing is trained, and a large model only has to recognise the task;
        fine-tuning would overfit. With many, fine-tuning: all examples change the weights, while a prompt holds
        only a few; it also needs no long prompt for every answer, and works with smaller models.""",
        "few: in-context learning, because fine-tuning overfits",
        "many: fine-tuning",
        "a prompt is limited in length, weights are not",
    ),
    question(
        "pretrain.chain_of_thought",
        "chain of thought",
        "What is chain-of-thought prompting? Give one example, and two benefits.",
        """The prompt shows (or asks for) the steps before the answer: "Ann has 3 bags of 4 apples and eats 2. 3 x 4
        = 12, 12 - 2 = 10. The answer is 10." The model spends more computation on hard questions and can store
        results in its own text; and one can read where it went wrong. It needs no training.""",
        "steps are written before the answer",
        "an example with steps",
        "benefit: more computation, intermediate results are kept, harder tasks are solved",
        "benefit: the way can be read and checked",
    ),
    question(
        "rlhf.models",
        "the three models of RLHF",
        """Name the three models in the order in which they are trained. What is each one trained on, what does it
        produce, and which loss belongs to it?""",
        """A supervised model: a language model fine-tuned on demonstrations, which produces answers; cross-entropy.
        A reward model: trained on rankings of answers, which gives a number for a prompt and an answer; -log
        sigmoid(r_w - r_l) over pairs. A policy: starts as the supervised model, trained on prompts with the rewards
        of its own answers; PPO's objective with a penalty on the KL from the supervised model.""",
        "supervised fine-tuning on demonstrations, cross-entropy",
        "reward model on rankings, gives a number",
        "the loss of pairs: -log sigmoid of the difference of rewards",
        "policy on prompts, PPO with the reward model",
    ),
    question(
        "rlhf.objective",
        "the objective of the policy, in symbols",
        """Write the objective of the third model in symbols: with the reward r, the KL coefficient beta and the
        pre-training coefficient gamma. What does each term do, and what goes wrong without it?""",
        """Maximise E_(x, y ~ pi) [ r(x, y) - beta log(pi(y | x) / pi_SFT(y | x)) ] + gamma E_(x ~ pretraining) [
        log pi(x) ]. r makes answers better, as the reward model sees it. beta keeps the policy near the supervised
        model: without it, the reward is hacked. gamma keeps language modelling: without it, scores on other tasks
        fall.""",
        "expected reward under the policy",
        "minus beta times log(pi / pi_SFT), against reward hacking",
        "plus gamma times the pre-training likelihood, against forgetting",
    ),
    question(
        "goal.over_optimised",
        "a policy that does not over-optimise",
        """Train a policy with headway rlhf twice, with a small and with a large beta. At which one do the reward
        and what you really want part ways? How did you choose beta, and what did you look at?""",
        """With a beta near 0, the reward rises while answers become long, repeated or strange, and the KL grows to
        tens of nats. With a very large one nothing moves. In between, held-out judgements rise with the reward; one
        stops or raises beta where they begin to fall.""",
        "two values of beta, with their rewards and KLs",
        "something besides the reward was looked at (answers, lengths, judges)",
        "the choice of beta is justified by it",
    ),
    question(
        "multi.simplest",
        "a tokenizer and a model for one and for 500 languages",
        """What is the simplest way to train a tokenizer and a model for one language, and for 500? Why does a joint
        BPE serve small languages badly?""",
        """For one: BPE on its texts, then a language model on them. For 500: the same with all texts put together.
        BPE merges what is frequent: large languages get whole words, small ones are cut into characters or bytes,
        so that their texts are longer, cost more and are learned worse. Sampling under a temperature for the
        tokenizer, or tokenizers for groups, help.""",
        "one: BPE and a model on its texts; 500: the same on all texts together",
        "merges go to the largest languages",
        "small languages are cut into many short pieces: longer texts, worse results",
        "a remedy: even out the sampling, or a tokenizer for each group",
    ),
    question(
        "multi.continued",
        "continued pre-training",
        "One advantage and one disadvantage of continuing to pre-train a model on a new language.",
        """Advantage: it needs far less data and computation than starting from scratch, because what languages share is
        known already. Disadvantage: it forgets the old languages (unless some of their texts are replayed), and its
        tokenizer was made for others (unless it is extended).""",
        "advantage: less data or computation, knowledge is transferred",
        "disadvantage: forgetting, or a tokenizer that does not fit",
    ),
    question(
        "multi.sets",
        "easy and hard sets of languages",
        "What makes one set of languages easier or harder for one model than another, and a model more useful?",
        """Easier: related languages, one script, shared words, much text of each. Harder: many scripts, rich
        morphology, no spaces, small and dirty data, very unequal sizes (the curse of multilinguality: they share
        the same weights). More useful: languages that have no model yet, many speakers, and translations between
        them.""",
        "related languages and a common script help",
        "scripts, morphology, little or unequal data make it harder",
        "languages share the capacity of one model",
        "useful: languages without a model, many speakers",
    ),
    question(
        "multi.epochs",
        "epochs and resampling",
        """How many epochs would you train on a large English corpus, and on a mixed one of many languages? Why?
        What does resampling change?""",
        """On a large English corpus about one: fresh text is better than repeated text. In a mixture the small
        languages are repeated, because resampling gives them more than their share: several epochs of them while
        English has not even one. Up to about four repetitions cost little; beyond that they overfit, which unimax's
        limit prevents.""",
        "English: about one epoch, because new text is better",
        "mixed: small languages are repeated several times",
        "resampling changes the shares, and so the epochs of each language",
        "too many repetitions overfit",
    ),
    question(
        "parallel.kinds",
        "two kinds of parallel training",
        """Name the two main kinds of parallel training, what each of them splits, what is sent, and when you need
        the second. Which kinds does an MLP disturb that also reads the two preceding positions and the next one,
        and why?""",
        """Data parallelism: every worker has the whole model and another part of the batch; gradients are averaged
        (an all-reduce). Model parallelism: the model itself is split, by layers (pipeline) or within matrices
        (tensor); activations are sent. It is needed where the model does not fit on one device. Such an MLP
        disturbs neither data nor pipeline parallelism, whose workers have whole sequences, but it does where
        positions are split: at each border, vectors of neighbours must be exchanged.""",
        "data parallelism: copies of the model, parts of the batch",
        "gradients are averaged",
        "model parallelism: layers or matrices are split, activations are sent; for models that do not fit",
        "the MLP disturbs a split of positions only, because neighbours are on other workers",
    ),
]
