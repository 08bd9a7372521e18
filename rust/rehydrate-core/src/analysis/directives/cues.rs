//! The words with which people make rules, by language and by what they say about a sentence.
//!
//! A phrase matches whole words. `*` after it lets its last word go on; in front of it, a few letters may come before the
//! word, as Hebrew and Arabic write them. `^` means that it must be first in a clause, or after a "please". What is
//! written without spaces matches anywhere. All are compared lower-cased and folded (scripts.rs).

/// The role of a phrase in its sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cue {
    /// Makes a rule by itself: "must not", "at most", "I prefer", "the goal is", "from now on".
    Strong,
    /// Makes a rule unless it says what somebody does or did: "never push" and "I never pushed".
    Unless,
    /// One of several signs of which two are needed, by its kind.
    Sign(u32),
    /// The sentence is about somebody from here on: "I", "it was".
    Tale,
    /// A figure of speech that has such a word in it: "don't worry", "must have been".
    Figure,
    /// In front of a colon: "Rule:".
    Label,
    /// The beginning of a clause; no phrase has it.
    Clause,
}

impl Cue {
    /// The bit of a sign's kind.
    pub(super) const fn bit(self) -> u32 {
        if let Self::Sign(kind) = self { kind } else { 0 }
    }
}

pub(super) const DUTY: Cue = Cue::Sign(1);
pub(super) const PLEA: Cue = Cue::Sign(1 << 1);
pub(super) const ONLY: Cue = Cue::Sign(1 << 2);
pub(super) const NOT: Cue = Cue::Sign(1 << 3);
pub(super) const TIME: Cue = Cue::Sign(1 << 4);
pub(super) const BOUND: Cue = Cue::Sign(1 << 5);
pub(super) const ORDER: Cue = Cue::Sign(1 << 6);
pub(super) const TURN: Cue = Cue::Sign(1 << 7);
/// The sentence is about how to answer.
pub(super) const MANNER: Cue = Cue::Sign(1 << 8);
/// A verb that is done once: "run the tests", where "use spaces" goes on.
pub(super) const TASK: Cue = Cue::Sign(1 << 9);
/// A digit; no phrase has it.
pub(super) const AMOUNT: u32 = 1 << 10;

use Cue::{Figure, Label, Strong, Tale, Unless};

pub(super) const CUES: &[(Cue, &str)] = &[
    // English
    (
        Strong,
        "we cannot|we can't|you cannot|you can't|must|mustn't|not allowed|aren't allowed|isn't allowed|forbidden|prohibited|off limits|under no circumstances|on no account|hands off|not permitted|may not|make sure|be sure to|ensure|remember to|at most|no more than|not more than|no longer than|no larger than|not exceed|never exceed|don't exceed|capped at|budget|budget's|maximum of|max of|limit of|limit is|prefer|prefers|preferred|preference|preferably|i'd rather|would rather|rather not|i like it when|i want you to|i need you to|i don't want|i do not want|i don't like|i do not like|we don't want|i dislike|i hate it when|goal is|goals are|aim is|purpose is|objective|what i want|what i'm after|what i am after|want to end up|end result|requirement|requirements|required|is a must|constraint|constraints|mandatory|not negotiable|non negotiable|no matter what|whatever you do|whatever happens|without my|without asking|without approval|without permission|without explicit|ask me before|ask before|ask me first|ask first|check with me|until i|until further notice|keep in mind|bear in mind|stick to|stick with|deadline|strictly|allergic|at all times|in all cases|needs to be|has to be|have to be|are to be|is to be|should always|should never|can only|may only|must only|only ever|as a rule|refrain from|stay away|steer clear|keep away|must stay|has to stay|not be shared|not be used|be kept|nobody but|no one but|nobody else|nothing else|no exceptions|wherever possible|whenever possible|wherever you can|by default|hard limit",
    ),
    (
        Strong,
        "from now on|from here on|going forward|from this point|henceforth|changed my mind|change of plan|change of plans|scratch that|forget what i|ignore what i|disregard|correction|i meant|i misspoke|i was wrong|my mistake|on second thought|on second thoughts|as of now|as of today|no longer valid|supersedes|replaces",
    ),
    (
        Unless,
        "^never|^always|^do not|^don't|and never|but never|or never|we never|must never|should never|is never|are never|may never|can never|never be|never ever|never to|never in|never on|never without|we always|must always|should always|is always|are always|always be|always to|and always|and do not|but do not|so do not|just do not|we do not|you do not|and don't|but don't|so don't|just don't|we don't|avoid|^no|^not|^only|shall not|won't accept|^nothing|^nobody",
    ),
    (
        DUTY,
        "always|should|shouldn't|ought to|need|needs|have to|has to|shall|want|wants|would like|i'd like|required to|supposed to|expected to|may",
    ),
    (PLEA, "please|kindly|pls|plz|can you|could you|would you"),
    (ONLY, "only|solely|exclusively|except|nothing but|alone|wherever"),
    (NOT, "not|no|without|none|never|don't|do not|cannot|can't|won't|isn't|shouldn't|doesn't"),
    (TIME, "before|until|unless|whenever|each time|every time|every|each|first"),
    (
        BOUND,
        "under|below|less than|more than|longer than|larger than|fewer than|at least|up to|within|max|maximum|minimum|limit|limited to|at the latest|by the end",
    ),
    (
        ORDER,
        "^use|^keep|^write|^make|^put|^leave|^stay|^follow|^name|^call|^store|^let|^ask|^report|^answer|^reply|^respond|^include|^exclude|^treat|^assume|^limit|^restrict|^focus|^skip|^stop|^work|^be|^set",
    ),
    (TASK, "^add|^run|^check|^test|^send|^give|^show|^do|^go"),
    (TURN, "actually|instead|rather than|sorry|anymore|any more|\n not|moved to|changed to"),
    (Tale, "i|i've|i'd|i'll|i'm|he|she|he's|she's|it's|that's|there's|was|were|had|been|did|didn't"),
    (
        Figure,
        "must be so|that must|it must|can't wait|cannot wait|must be awesome|must be challenging|must be hard|must be really|must be very|must be the|must've been|always be there|always being|and always be|must have|must've|must feel|must be hard|must be nice|must be great|must be fun|must be tough|must be amazing|must be exciting|don't worry|do not worry|never mind|nevermind|don't know|do not know|don't think|don't remember|don't have|do not have|don't see|don't understand|no problem|no worries|no idea|no way|no doubt|no need|why not|not sure|not only|always been|never been|always loved|never thought|never knew|never give up|don't give up|don't mention|don't mind|no \n|no i|no it|no that|no thanks|no thank|always nice|always good|always great|always fun|no one knows|not yet|^do you|^do we|not really|not bad|don't hesitate|let me know|let us know|no matter how|budget airline|no luck",
    ),
    (
        Label,
        "rule|rules|constraint|constraints|requirement|requirements|policy|policies|guideline|guidelines|convention|conventions|goal|goals|objective|preference|preferences|limit|limits|deadline|important|attention|fact|facts|prohibition|must|never|always|don't|remember|restriction|restrictions|instruction|instructions|decision",
    ),
    (
        Strong,
        "it is important|it's important that|style guide|our policy|policy is|aim of|only allowed to|allowed only|forbids|insist|hold off|wait for my|wait until i|wait till i|spare me|i hate|vegetarian|vegan|wheelchair|gluten|diabetic|whenever you|each time you|every time you|so no|^treat|our convention|not until",
    ),
    (ORDER, "should be|should have|should start|should end|should use|should stay|should come"),
    (
        Figure,
        "should be fine|should be ok|should be okay|should be good|should be able|should be all|should be enough|should be done|should be easy|should be great|should be fun|should have been|should have done|should have known",
    ),
    (BOUND, "in english|in german|in french|in spanish|in italian|in portuguese|in chinese|in japanese|as possible"),
    (
        MANNER,
        "answer|answers|reply|replies|response|responses|tone|comments|style|format|commit messages|your messages|explanations",
    ),
    // German
    (
        Strong,
        "auf keinen fall|keinesfalls|unter keinen umständen|darfst nicht|darfst du nicht|darf nicht|dürfen nicht|dürft nicht|darfst|verboten|nicht erlaubt|untersagt|tabu|finger weg|muss|musst|müssen|müsst|achte darauf|achte auf|stell sicher|stelle sicher|stellt sicher|unbedingt|zwingend|höchstens|maximal|nicht mehr als|nicht länger als|nicht größer als|budget|obergrenze|das ziel|unser ziel|mein ziel|ziel ist|bevorzuge|bevorzugt|bevorzugen|am liebsten|lieber|mir wäre lieber|ich möchte nicht|ich will nicht|ich will keine|ich möchte keine|ohne meine|ohne rückfrage|denk daran|denke daran|vergiss nicht|nur noch|ausschließlich|grundsätzlich|vorgabe|bedingung|voraussetzung|frist|allergisch|soll nicht|sollst nicht|sollen nicht|soll nur|sollst du",
    ),
    (
        Strong,
        "ab sofort|ab jetzt|von jetzt an|von nun an|künftig|in zukunft|vergiss was|ich habe mich geirrt|ich meinte|korrektur|doch nicht|anders überlegt|sondern",
    ),
    (
        Unless,
        "nie|niemals|immer|stets|vermeide|^kein|^keine|^nicht|bitte kein|bitte keine|bitte keinen|bitte nicht|^nur",
    ),
    (DUTY, "hätte gern|hätte gerne|wünsche|soll|sollst|sollen|sollte|brauche|brauchen|möchte"),
    (PLEA, "bitte|kannst du|könntest du"),
    (ONLY, "nur|bloß|allein"),
    (NOT, "nicht|kein|keine|keinen|keiner|ohne"),
    (TIME, "vor jedem|vor jeder|bevor|bis|jede|jeder|jedes|jedes mal|erst|zuerst"),
    (
        BOUND,
        "auf deutsch|auf englisch|so weit wie möglich|möglichst|bis zu|unter|weniger als|mehr als|länger als|mindestens|innerhalb|maximum|minimum",
    ),
    (
        ORDER,
        "^nutze|^benutze|^verwende|^schreibe|^schreib|^halte|^lass|^lasse|^antworte|^frag|^frage|^mach|^mache|^nimm|^stell|^setz",
    ),
    (TURN, "eigentlich|stattdessen|statt|anstatt|entschuldigung|\n nicht"),
    (Tale, "ich|ich habe|war|hatte|wurde|es ist|es war"),
    (Figure, "keine ahnung|kein problem|keine sorge|nicht sicher|immer noch|immer wieder|weiß nicht|muss ja"),
    (
        Label,
        "regel|regeln|vorgabe|vorgaben|wichtig|ziel|anforderung|anforderungen|präferenz|einschränkung|bedingung|achtung",
    ),
    (Strong, "halte dich an|haltet euch an|nicht drin|wichtig ist"),
    (Unless, "nirgends|nirgendwo"),
    (TASK, "^ändere|^lösche|^entferne|^schick|^sende|^zeig|^gib|^führe|^starte|^fass|^prüfe|^teste"),
    (MANNER, "antworten|antwort|ton|kommentare|stil|erklärungen"),
    // French
    (
        Strong,
        "en aucun cas|sous aucun prétexte|interdit|interdite|défense de|pas le droit|il faut|il ne faut|doit|dois|doivent|devez|devra|devront|surtout pas|au maximum|au plus|pas plus de|pas plus d'*|ne dépasse|ne dépassez|ne pas dépasser|maximum|budget|assure toi|assurez vous|veille à|veillez à|n'oublie pas|n'oubliez pas|objectif|l'objectif|d'objectif|le but est|mon but|je préfère|préfère|préférons|j'aimerais mieux|plutôt que|je ne veux pas|je veux que|sans mon accord|sans me demander|obligatoire|obligatoirement|impérativement|uniquement|exclusivement|rappelle toi|allergique|date limite|à condition",
    ),
    (
        Strong,
        "désormais|dorénavant|à partir de maintenant|à partir d'aujourd'hui|j'ai changé d'avis|oublie ce que|je voulais dire|je me suis trompé|je me suis trompée|correction|et non|et pas",
    ),
    (
        Unless,
        "jamais|toujours|^ne|n'oublie|^n'utilise|^n'ajoute|^n'envoie|^n'écris|^n'efface|^n'utilisez|^n'ajoutez|^n'envoyez|évite|évitez|évite de|^pas de|^pas d'*|^aucun|^aucune",
    ),
    (DUTY, "devrait|besoin|voudrais|veux|faudrait"),
    (PLEA, "s'il te plaît|s'il vous plaît|stp|svp|merci de|peux tu|pourrais tu"),
    (ONLY, "seulement|seul|seule|juste"),
    (NOT, "pas|sans|aucun|aucune|non"),
    (TIME, "avant|chaque|chaque fois|d'abord|tant que"),
    (BOUND, "en français|en anglais|possible|moins de|plus de|au moins|jusqu'à|max"),
    (
        ORDER,
        "^laisse|^utilise|^utilisez|^écris|^écrivez|^garde|^gardez|^réponds|^répondez|^demande|^mets|^fais|^faites",
    ),
    (TASK, "^modifie|^supprime|^change|^envoie"),
    (TURN, "en fait|plutôt|à la place|au lieu|finalement|désolé|désolée"),
    (Tale, "je|j'ai|j'étais|c'est|c'était|était|avait"),
    (Figure, "pas de problème|je ne sais pas|pas de souci|n'ai pas|ne sais pas|^n'est ce"),
    (Label, "règle|règles|contrainte|contraintes|objectif|préférence|préférences|important|exigence|exigences"),
    (Strong, "le plafond|plafond de|au lieu de|il est important|tiens toi|tenez vous"),
    (MANNER, "réponse|réponses|réponds|répondes|répondez|ton|commentaires|style"),
    // Spanish
    (
        Strong,
        "bajo ningún concepto|bajo ninguna circunstancia|en ningún caso|prohibido|prohibida|no está permitido|no se permite|no se puede|no puedes|no debes|no debe|debes|debe|deben|debería|tienes que|tiene que|hay que|es necesario|es obligatorio|obligatorio|asegúrate|asegúrese|asegurate|recuerda|no olvides|no te olvides|como mucho|como máximo|a lo sumo|no más de|máximo|máxima|maximo|presupuesto|límite de|el límite|no superar|no supere|objetivo|la meta|mi meta|prefiero|preferimos|preferiría|me gustaría más|no quiero|quiero que|sin mi permiso|sin preguntarme|sin mi|únicamente|exclusivamente|solo en|sólo en|fecha límite|alérgico|alérgica|ten en cuenta",
    ),
    (
        Strong,
        "a partir de ahora|de ahora en adelante|desde ahora|en adelante|he cambiado de opinión|cambié de opinión|olvida lo que|me equivoqué|quise decir|quería decir|corrección|en lugar de|en vez de",
    ),
    (Unless, "nunca|jamás|siempre|evita|evite|evitar|^nada de|^solo|^sólo"),
    (DUTY, "necesito|quiero|quisiera|conviene"),
    (PLEA, "por favor|puedes|podrías"),
    (ONLY, "solo|sólo|solamente|excepto|salvo"),
    (NOT, "no|sin|ningún|ninguna"),
    (TIME, "antes de|cada|cada vez|primero"),
    (BOUND, "en español|en inglés|posible|menos de|más de|al menos|hasta|mínimo|dentro de"),
    (ORDER, "^usa|^use|^utiliza|^escribe|^mantén|^mantenga|^responde|^pregunta|^pon|^haz|^deja"),
    (TURN, "en realidad|mejor|perdón|más bien|\n no"),
    (Tale, "yo|he|era|fue|estaba|había"),
    (
        Figure,
        "no sé|no tengo|no hay|no es|no está|no puedo|no entiendo|no funciona|no importa|no te preocupes|no creo|no me|no lo|no la|no ha|no he",
    ),
    (
        Label,
        "regla|reglas|restricción|restricciones|objetivo|preferencia|preferencias|importante|requisito|requisitos|límite",
    ),
    (Strong, "ni se te ocurra|el tope|tope de|es importante"),
    (MANNER, "respuesta|respuestas|tono|comentarios|estilo"),
    // Portuguese
    (
        Strong,
        "de jeito nenhum|em hipótese alguma|proibido|proibida|não é permitido|não pode|não podem|não deve|não devem|deve|devem|tem que|tens de|precisa|precisam|é preciso|é necessário|obrigatório|certifique se|certifica te|garanta que|garante que|lembre se|não esqueça|não se esqueça|no máximo|não mais que|orçamento|limite de|o limite|prefiro|preferimos|preferia|não quero|quero que|sem minha|sem meu|sem falar comigo|sem autorização|somente em|unicamente|prazo|alérgico|alérgica|leve em conta",
    ),
    (
        Strong,
        "a partir de agora|daqui em diante|daqui para frente|de agora em diante|mudei de ideia|esqueça o que|me enganei|quis dizer|correção|em vez de|ao invés de",
    ),
    (Unless, "sempre|evite|evita|^não|^nada de|^só|^apenas"),
    (DUTY, "preciso|quero|gostaria"),
    (PLEA, "por favor|pode|poderia"),
    (ONLY, "só|somente|apenas|exceto"),
    (NOT, "não|sem|nenhum|nenhuma"),
    (TIME, "antes de|cada|toda vez|primeiro"),
    (BOUND, "em português|em inglês|possível|menos de|mais de|pelo menos|até|mínimo|dentro de"),
    (ORDER, "^use|^utilize|^escreva|^mantenha|^responda|^pergunte|^coloque|^faça|^deixe"),
    (TURN, "na verdade|melhor|desculpe|aliás|\n não"),
    (Tale, "eu|foi|estava|tinha"),
    (
        Figure,
        "não sei|não tenho|não há|não é|não está|não consigo|não entendi|não funciona|não importa|não se preocupe|não acho|não foi|não me",
    ),
    (Label, "regra|regras|restrição|restrições|preferência|requisito|requisitos"),
    (Strong, "o teto|teto de|nem pense em|é importante"),
    (MANNER, "resposta|respostas|tom|comentários|estilo"),
    // Italian
    (
        Strong,
        "in nessun caso|per nessun motivo|assolutamente|vietato|vietata|non è permesso|non è consentito|non puoi|non si può|non devi|non deve|devi|deve|devono|bisogna|è necessario|obbligatorio|assicurati|assicuratevi|ricordati|ricorda|non dimenticare|al massimo|non più di|massimo|massima|limite di|il limite|obiettivo|l'obiettivo|dell'obiettivo|lo scopo è|preferisco|preferiamo|preferirei|non voglio|voglio che|senza il mio|senza chiedere|senza chiedermi|esclusivamente|unicamente|scadenza|allergico|allergica|tieni conto|tieni presente",
    ),
    (
        Strong,
        "d'ora in poi|da ora in poi|da adesso|da oggi in poi|ho cambiato idea|dimentica quello|mi sono sbagliato|mi sono sbagliata|volevo dire|correzione|invece di|al posto di|invece della|invece del|anzi",
    ),
    (Unless, "mai|sempre|evita|evitate|^non|^niente|^nessun|^solo|^soltanto"),
    (DUTY, "dovrebbe|serve|voglio|vorrei"),
    (PLEA, "per favore|per piacere|puoi|potresti"),
    (ONLY, "solo|soltanto|solamente|tranne|eccetto"),
    (NOT, "non|senza|nessun|nessuna"),
    (TIME, "prima di|ogni|ogni volta|fino a|finché"),
    (BOUND, "in italiano|in inglese|possibile|meno di|più di|almeno|entro|minimo"),
    (ORDER, "^usa|^usate|^utilizza|^scrivi|^mantieni|^rispondi|^chiedi|^metti|^fai|^lascia"),
    (TURN, "in realtà|invece|meglio|scusa|piuttosto|\n non"),
    (Tale, "io|ero|era|avevo"),
    (
        Figure,
        "non so|non ho|non c'è|non è|non riesco|non posso|non capisco|non funziona|non importa|non ti preoccupare|non credo|non mi",
    ),
    (Label, "regola|regole|vincolo|vincoli|obiettivo|preferenza|preferenze|requisito|requisiti"),
    (Strong, "il tetto|tetto di|è importante"),
    (MANNER, "risposta|risposte|tono|commenti|stile"),
    // Dutch
    (
        Strong,
        "in geen geval|onder geen beding|verboden|niet toegestaan|mag niet|mogen niet|mag je niet|moet|moeten|zorg dat|zorg ervoor|verplicht|hooguit|hoogstens|maximaal|niet meer dan|niet langer dan|ten hoogste|budget|het doel|ons doel|doel is|liever|bij voorkeur|ik wil niet|ik wil geen|zonder mijn|zonder te vragen|vergeet niet|denk eraan|uitsluitend|allergisch",
    ),
    (
        Strong,
        "vanaf nu|voortaan|van nu af aan|ik bedoelde|ik heb me vergist|toch niet|in plaats van|van gedachten veranderd",
    ),
    (Unless, "nooit|altijd|vermijd|^geen|^niet|^alleen"),
    (DUTY, "wil|graag|nodig"),
    (PLEA, "alsjeblieft|alstublieft|kun je"),
    (ONLY, "alleen|enkel|slechts"),
    (NOT, "niet|geen|zonder"),
    (TIME, "voordat|elke|iedere|eerst|totdat"),
    (BOUND, "minder dan|meer dan|minstens|binnen|onder de"),
    (ORDER, "^raak|^maak|^zet|^laat|^gebruik|^schrijf|^houd|^antwoord|^vraag"),
    (TASK, "^verander|^wijzig|^verwijder|^doe|^pas|^stuur"),
    (TURN, "eigenlijk|in plaats|sorry|liever niet"),
    (Tale, "ik|was|had|het is"),
    (Figure, "geen probleem|geen idee|weet niet|niet zeker"),
    (Label, "regel|regels|doel|voorkeur|belangrijk|eis|eisen"),
    (Strong, "de limiet|bovengrens|het is belangrijk|houd je aan"),
    (MANNER, "antwoord|antwoorden|toon|stijl"),
    // Polish
    (
        Strong,
        "w żadnym wypadku|pod żadnym pozorem|zabronione|zabrania się|nie wolno|zakaz|musisz|musi|muszą|należy|trzeba|koniecznie|obowiązkowo|upewnij się|pamiętaj|co najwyżej|maksymalnie|nie więcej niż|nie dłużej niż|budżet*|celem|naszym celem|cel to|wolę|wolimy|wolałbym|preferuję|nie chcę|bez mojej|bez pytania|wyłącznie",
    ),
    (Strong, "od teraz|odtąd|od tej pory|zmieniłem zdanie|miałem na myśli|pomyliłem się|zamiast"),
    (Unless, "nigdy|zawsze|unikaj|^nie|^żadnych|^tylko"),
    (DUTY, "powinien|powinno|powinny|chcę|potrzebuję"),
    (PLEA, "proszę"),
    (ORDER, "^używaj|^pisz|^odpowiadaj"),
    (ONLY, "tylko|jedynie"),
    (NOT, "nie|bez|żadnych"),
    (TIME, "przed|zanim|każdy|każdą|każdym|najpierw|dopóki"),
    (BOUND, "mniej niż|więcej niż|co najmniej|poniżej"),
    (TURN, "właściwie|jednak|przepraszam|raczej"),
    (Tale, "był|było|była"),
    (Figure, "nie wiem|nie mam|nie działa|nie mogę|nie jest|nie ma|nie rozumiem"),
    (Label, "zasada|zasady|cel|ważne|wymaganie|wymagania|ograniczenie"),
    (MANNER, "odpowiedzi|odpowiedź|komentarze|styl"),
    // Turkish
    (
        Strong,
        "asla|kesinlikle|yasak|yasaktır|izin yok|zorunlu|mutlaka|en fazla|en çok|azami|bütçe*|hedefimiz|hedef|amacımız|tercih ederim|tercih ediyorum|istemiyorum|unutma|emin ol|yapmalısın|kullanmalısın|çalıştırmalısın|sormalısın|etmelisin|vermelisin|olmalı|olmalıdır|edilmeli|edilmelidir|kullanılmalı|kullanılmalıdır|izinsiz|bana sormadan|yalnızca|sadece",
    ),
    (Strong, "sınırımız|üst sınır|önemli olan|bundan sonra|şu andan itibaren|bundan böyle|fikrimi değiştirdim|yerine"),
    (Unless, "dokunma|yapma|kullanma|silme|değiştirme|gönderme|paylaşma|her zaman|daima|hiçbir zaman|hiçbir"),
    (DUTY, "gerek*|lazım|istiyorum"),
    (PLEA, "lütfen"),
    (ORDER, "kullan|kullanın"),
    (TIME, "önce|her"),
    (BOUND, "altında|kadar|en az|fazla"),
    (TURN, "artık|aslında|onun yerine|pardon"),
    (Label, "kural|kurallar|hedef|önemli|kısıtlama|tercih"),
    (MANNER, "cevap*|yanıt*|yorumlar"),
    // Russian
    (
        Strong,
        "ни в коем случае|ни при каких|нельзя|запрещено|запрещается|запрещён*|не разрешается|не должен|не должна|не должно|не должны|должен|должна|должно|должны|обязательно|обязан*|необходимо|нужно чтобы|надо чтобы|убедись|убедитесь|следи за|не забудь|не забывай|помни|не больше|не более|не дольше|максимум|не превыша*|бюджет*|лимит|цель|наша цель|моя цель|предпочита*|предпочтительно|лучше бы|мне больше нравится|не хочу|хочу чтобы|без моего|без согласия|без разрешения|исключительно|строго|срок|аллерг*",
    ),
    (
        Strong,
        "отныне|с этого момента|с сегодняшнего дня|впредь|теперь|я передумал*|забудь что|я ошибся|я ошиблась|я имел в виду|я имела в виду|поправка|а не|вместо",
    ),
    (Unless, "никогда|всегда|избегай*|^не|^никаких|^никакой|^только|пожалуйста не"),
    (DUTY, "нужно|надо|следует|хочу|нужен"),
    (PLEA, "пожалуйста|можешь|прошу"),
    (ONLY, "только|лишь|кроме"),
    (NOT, "не|без|нет"),
    (TIME, "перед|прежде|каждый|каждого|каждым|каждую|пока|сначала"),
    (BOUND, "на русском|по русски|на английском|по английски|меньше|больше|не менее|минимум|в пределах|до"),
    (ORDER, "^используй*|^пиши*|^отвечай*|^спрашивай*|^оставь*|^делай*|^проверяй*|^запускай*"),
    (TURN, "на самом деле|вообще то|лучше|извини*|скорее"),
    (Tale, "я|был|была|было|были"),
    (
        Figure,
        "не знаю|не могу|не понимаю|не работает|не было|не помню|не уверен*|ничего страшного|не вижу|не получается",
    ),
    (Label, "правило|правила|ограничение|ограничения|цель|важно|предпочтение|предпочтения|требование|требования"),
    (Strong, "потолок|важно чтобы"),
    (MANNER, "ответ*|комментар*|стиль"),
    // Hebrew
    (
        Strong,
        "אסור|אין ל*|אל ת*|בשום אופן|בשום מקרה|בשום פנים|חייב|חייבת|חייבים|חייבות|חובה|*יש לוודא|תוודא|ודא ש*|תדאג|הקפד|תזכור|זכור|אל תשכח|לכל היותר|לא יותר|מקסימום|*תקציב|*תקציבי|*תקציבנו|*מטרה|*מטרה שלנו|היעד|*מעדיף|*מעדיפה|*מעדיפים|אני לא רוצה|בלי אישור*|ללא אישור*|בלי לשאול|בלבד|אלרגי*|מועד אחרון",
    ),
    (
        Strong,
        "*מגבלה היא|*תקרה|חשוב ש*|המגבלה|מעכשיו|מעתה|מהיום|מכאן והלאה|שיניתי את דעתי|התכוונתי|טעיתי|תיקון|במקום|ולא",
    ),
    (Unless, "לעולם|אף פעם|תמיד|^לא|^רק|^בלי|^ללא"),
    (DUTY, "צריכות|צריך|צריכה|צריכים|רוצה|כדאי"),
    (PLEA, "בבקשה|אנא"),
    (ORDER, "^השתמש*"),
    (ONLY, "רק"),
    (NOT, "לא|בלי|ללא|אין"),
    (TIME, "לפני|כל פעם|כל"),
    (BOUND, "פחות מ*|יותר מ*|לפחות|עד"),
    (TURN, "בעצם|למעשה|סליחה|עדיף"),
    (Tale, "הייתי|היה|היתה|הייתה"),
    (Figure, "לא יודע*|לא עובד*|לא נורא|אין לי|אין בעיה|לא מבין*"),
    (Label, "כלל|כללים|חוק|מטרה|חשוב|העדפה|דרישה|דרישות|מגבלה"),
    (MANNER, "*תשובות|*תשובה|בעברית|באנגלית"),
    // Arabic
    (
        Strong,
        "ممنوع|يمنع|يُمنع|لا يجوز|لا يسمح|غير مسموح|محظور|يجب|يجب ان|يجب ألا|لا بد|لابد|ضروري|من الضروري|تاكد|تأكد|احرص|تذكر|لا تنس|على الاكثر|كحد اقصى|كحد أقصى|الحد الاقصى|لا يتجاوز|لا تتجاوز|لا يزيد|لا تزيد|*ميزانيه|*ميزانية|*ميزانيتي|*ميزانيتنا|*الهدف|*هدفنا|*هدفي|افضل|أفضل|نفضل|لا اريد|لا أريد|دون اذن*|دون إذن*|دون موافق*|بدون موافق*|بدون اذن*|حصرا|حساسيه*|الموعد النهائي|بشرط",
    ),
    (
        Strong,
        "الحد الاعلى|لا اريد*|من المهم|السقف|من الان|من الآن|من الان فصاعدا|بعد الان|غيرت رايي|غيرت رأيي|قصدت|اخطات|أخطأت|تصحيح|بدلا من|وليس|وليست",
    ),
    (Unless, "ابدا|أبدا|دائما|دايما|تجنب|^لا ت*|^فقط|^الرجاء عدم"),
    (DUTY, "ينبغي|اريد|أريد|احتاج|أحتاج"),
    (PLEA, "من فضلك|رجاء|الرجاء|لو سمحت"),
    (ONLY, "فقط|الا|إلا"),
    (NOT, "لا|ليس|دون|بدون|عدم"),
    (TIME, "قبل|كل|كل مره|حتى"),
    (BOUND, "اقل من|أقل من|اكثر من|أكثر من|على الاقل|خلال"),
    (ORDER, "^استخدم|^اكتب|^اجعل|^اسال|^اسأل"),
    (TURN, "في الواقع|في الحقيقه|في الحقيقة|عذرا|بل"),
    (Tale, "كنت|كان|كانت"),
    (Figure, "لا توجد|لا تعمل|لا تقلق|لا اعرف|لا أعرف|لا يوجد"),
    (Label, "قاعدة|قاعده|قواعد|هدف|مهم|تفضيل|شرط|شروط|متطلبات"),
    (MANNER, "*اجابات|*ردود|بالعربيه|بالانجليزيه"),
    // Hindi
    (
        Strong,
        "मत|मना है|मना|निषिद्ध|प्रतिबंधित|अनुमति नहीं|इजाज़त नहीं|ज़रूर|अवश्य|अनिवार्य|ज़रूरी है|करना होगा|करनी होगी|सुनिश्चित|ध्यान रखें|ध्यान रखना|याद रखें|याद रखना|ज़्यादा से ज़्यादा|अधिकतम|से अधिक नहीं|से ज़्यादा नहीं|बजट|लक्ष्य|उद्देश्य|पसंद है|पसंद हैं|पसंद करता|पसंद करती|मैं नहीं चाहता|मैं नहीं चाहती|बिना पूछे|बिना अनुमति|मेरी अनुमति",
    ),
    (Strong, "सीमा|अब से|आगे से|आज से|की जगह|के बजाय|मेरा मतलब|ग़लती हो गई|नहीं बल्कि"),
    (Unless, "कभी नहीं|कभी भी|कभी मत|हमेशा|सदा|^केवल|^सिर्फ़"),
    (DUTY, "चाहिए|चाहता|चाहती|होगा"),
    (PLEA, "कृपया|प्लीज़"),
    (ORDER, "उपयोग करें|इस्तेमाल करें"),
    (ONLY, "केवल|सिर्फ़|बस"),
    (NOT, "नहीं|न|बिना"),
    (TIME, "पहले|हर|हर बार|तक"),
    (BOUND, "से कम|के अंदर"),
    (TURN, "दरअसल|असल में|बल्कि|माफ़ करना"),
    (Tale, "था|थी|थे"),
    (Label, "नियम|लक्ष्य|महत्वपूर्ण|शर्त|सीमा"),
    (MANNER, "जवाब|हिंदी में|अंग्रेज़ी में"),
    // Chinese
    (
        Strong,
        "不要|不得|不可以|不许|不准|禁止|严禁|切勿|请勿|千万|务必|必须|一定要|只能|仅限|最多|不超过|不要超过|不得超过|以内|预算|上限|目标|目的是|偏好|更喜欢|比较喜欢|宁愿|倾向于|尽量|记住|请记得|请确保|确保|别再|别把|别用|请别|千万别|不想要|不希望|未经|没有我的|截止|过敏|不允许|無論如何|必須|不准|預算|目標|務必|儘量",
    ),
    (
        Strong,
        "从现在|从今|今后|以后都|以后请|改用|改为|改成|改到|而不是|不是周|我改主意|说错了|我的意思是|更正|代替|從現在|改為",
    ),
    (Unless, "永远|从不|始终|总是|一律"),
    (DUTY, "应该|需要|希望|想要|应当|要求|喜欢"),
    (PLEA, "请|麻烦"),
    (ONLY, "只|仅"),
    (NOT, "不能|不是|没有|不用"),
    (TIME, "之前|每次|每个|直到|先"),
    (BOUND, "至少|以下|以上|少于|超过|之内"),
    (ORDER, "使用|保持|请用"),
    (TURN, "其实|实际上|换成|不好意思"),
    (Figure, "没有问题|沒有問題|不能理解|不要紧|不要担心|不能用了|不得不|总是觉得"),
    (Label, "规则|规定|要求|目标|重要|注意|限制|偏好|约束"),
    (Strong, "别动|别碰|别改|别删|别提交|先问我|控制在|用中文|用英文|重要的是"),
    (MANNER, "回答|回复|注释"),
    // Japanese
    (
        Strong,
        "ないでください|しないで|禁止|必ず|絶対に|ないこと|てはいけ|ではいけ|てはなら|なければなら|なければいけ|べきで|べきでは|最大|以内|予算|上限|目標|目的は|ほうが好|方が好|ほうがいい|方がいい|好みです|希望します|許可なく|確認してから|に限る|限定|忘れずに|厳守|締め切り|締切|アレルギー|ようにしてください|控えて|避けて",
    ),
    (Strong, "ないで|今後は|今後|これからは|以後は|ではなく|じゃなくて|の代わりに|やっぱり|訂正|間違えました|変更して"),
    (Unless, "決して|常に|いつも|絶対"),
    (DUTY, "欲しい|ほしい|したい|必要"),
    (PLEA, "ください|お願い"),
    (ORDER, "使ってください|使用してください"),
    (ONLY, "だけ|のみ"),
    (NOT, "ない|なし"),
    (TIME, "前に|毎回|ごとに|先に"),
    (BOUND, "日本語で|英語で|以下|以上|未満|まで"),
    (TURN, "実は|むしろ"),
    (Figure, "ないでしょ|ないです|ないでき|しかない|かもしれない|間違いない|問題ない"),
    (Label, "ルール|規則|目標|重要|注意|制約|条件|要件|好み"),
    (MANNER, "返信|回答|返答|コメント"),
    // Korean
    (
        Strong,
        "마세요|마십시오|하지 마|지 말|절대|금지|반드시|꼭|최대|이내|이하로|예산|목표|선호|안 됩니다|안 돼|해야 합니다|해야 해|허락 없이|승인 없이|확인하세요|명심|원하지 않",
    ),
    (Strong, "말아 주|상한|앞으로는|지금부터|이제부터|대신|아니라|말고|정정|생각이 바뀌"),
    (Unless, "항상|언제나|결코"),
    (DUTY, "필요|원합니다|싶어"),
    (PLEA, "주세요|부탁"),
    (ORDER, "사용해 주|사용하세요"),
    (ONLY, "만 |오직"),
    (TIME, "전에|매번|마다|먼저"),
    (BOUND, "이상|미만|까지"),
    (TURN, "사실은|사실|실은"),
    (Label, "규칙|목표|중요|주의|제약|조건|선호"),
    (MANNER, "답변|대답|한국어로|영어로"),
];
